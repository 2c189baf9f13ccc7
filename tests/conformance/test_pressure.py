"""Clients that send faster than there is memory for: they are slowed down, not closed."""

import contextlib
import select
import socket
import threading
import time

import pytest

from conformance.wire import DEADLINE_S, set_request

pytestmark = pytest.mark.cotenant


def together(count, act):
    """Runs `act(n)` on as many threads; every failure is one of the test."""
    failures = []

    def run(n):
        try:
            act(n)
        except Exception as failure:  # noqa: BLE001 (told by the assertion below)
            failures.append(repr(failure))

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_pipelined_writes_without_replies_are_all_done(fresh):
    server = fresh(memory="16")

    def flood(n):
        with server.wire() as wire:
            batch = b"".join(set_request(b"k%d:%d" % (n, i), b"x" * 100, noreply=True) for i in range(30_000))
            wire.send(batch + b"version\r\n")
            assert wire.read_line().startswith(b"VERSION")
            assert wire.value(b"k%d:29999" % n) == b"x" * 100

    together(4, flood)
    with server.wire() as wire:
        stats = wire.stats()
        assert stats["read_buf_oom"] == "0"
        assert stats["cmd_set"] == "120000"


def test_replies_of_several_turns_come_whole_and_in_order(fresh):
    """More requests than a turn takes, from several connections at once, then an end or a list of items."""
    server = fresh(memory="16")

    def ask(n):
        for end in (b"quit\r\n", b"lru_crawler metadump 63\r\nquit\r\n") * 5:
            with server.wire() as wire:
                wire.send(set_request(b"k%d" % n, b"v") + b"get k%d\r\n" % n * 70 + end)
                wanted = b"STORED\r\n" + b"VALUE k%d 0 1\r\nv\r\nEND\r\n" % n * 70
                answer = wire.read_to_close()
                assert answer.startswith(wanted)
                assert answer[len(wanted) :] in (b"", b"END\r\n")

    together(4, ask)


def test_large_values_wait_for_memory(fresh):
    """21 MiB of values on their way at once, where buffers may take 8 MiB."""
    server = fresh(memory="64")
    value = b"v" * (900 << 10)
    begun = threading.Barrier(24)

    def store(n):
        request = set_request(b"big%d" % n, value)
        with server.wire() as wire:
            wire.send(request[: 64 << 10])
            begun.wait()
            wire.send(request[64 << 10 :])
            assert wire.read_line() == b"STORED\r\n"
            assert wire.value(b"small") is None

    together(24, store)
    with server.wire() as wire:
        assert wire.stats()["read_buf_oom"] == "0"


def exchange(sent, request, deadline_s):
    """Sends the rest of `request` on each connection as it is taken, of which `sent` has gone; until each has an answer or
    its end. Returns the first bytes of each, or b"" where there are none by then."""
    connections, answers = list(sent), {}
    end = time.monotonic() + deadline_s
    while len(answers) < len(connections) and time.monotonic() < end:
        waiting = [connection for connection in connections if connection not in answers]
        writing = [connection for connection in waiting if sent[connection] < len(request)]
        readable, writable, _ = select.select(waiting, writing, [], 1)
        for connection in writable:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                sent[connection] += connection.send(request[sent[connection] :])
        for connection in readable:
            try:
                answers[connection] = connection.recv(64) or b"closed"
            except ConnectionError:
                answers[connection] = b"closed"
    return [answers.get(connection, b"") for connection in connections]


def test_requests_that_all_wait_for_memory_do_not_wait_for_one_another(fresh):
    """Each has half of its request there, and all of them hold more than buffers may take: some go on, the others are told."""
    server = fresh(memory="16")
    request = b"get" + b"".join(b" key%07d" % n for n in range(18_000)) + b"\r\n"
    sent = {}
    for _ in range(150):
        connection = socket.create_connection(server.address, DEADLINE_S)
        connection.setblocking(False)
        sent[connection] = connection.send(request[: len(request) // 2])
    answers = exchange(sent, request, DEADLINE_S)
    served = sum(answer == b"END\r\n" for answer in answers)
    assert b"" not in answers, f"{served} served, {answers.count(b'')} without an answer"
    assert 10 <= served < len(sent), "as many as there is memory for"
    for connection in sent:
        connection.close()
    with server.wire() as wire:
        assert wire.ask(request) == b"END\r\n", "whoever comes then has the memory"
        stats = wire.stats()
        assert stats["read_buf_oom"] != "0"
