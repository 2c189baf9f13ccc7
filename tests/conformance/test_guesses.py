"""Wrong passwords, many or dear ones: they hold up nobody else."""

import select
import socket
import time

import pytest

from conformance import servers
from conformance.packets import AUTH, OK, BinaryWire, failure, packet, read
from conformance.test_auth import ATTEMPTS, FAILURE, HASH, UNAUTHENTICATED, logins, plain_message, wire_auth
from conformance.test_tenants import samples
from conformance.wire import DEADLINE_S, END, set_request

pytestmark = pytest.mark.cotenant


#: A hash that takes about a second and that no password has.
DEAR = f"$argon2id$v=19$m=65536,t=16,p=1$c2FsdHNhbHRzYWx0${'A' * 43}"


def has_answered(wire):
    """Whether something has arrived that was not read."""
    return bool(wire.buffer) or bool(select.select([wire.sock], [], [], 0)[0])


def test_a_dear_password_keeps_no_worker_busy(tmp_path):
    """The only worker serves others while a password is looked at, and then what stands behind that password."""
    users = tmp_path / "users"
    users.write_text(f"ann:one\nheavy:{DEAR}\n", encoding="ascii")
    running = servers.start_cotenant(["-Y", str(users), "-t", "1"])
    try:
        with running.wire() as ann, running.wire() as text, BinaryWire(running.address) as binary, running.wire() as gone:
            assert ann.ask(set_request(b"auth", b"ann one")) == b"STORED\r\n"
            gone.send(set_request(b"auth", b"heavy wrong"))
            gone.close()
            text.send(set_request(b"auth", b"heavy wrong") + b"get a\r\n" + set_request(b"auth", b"ann one") + b"get a\r\n")
            binary.send(packet("sasl_auth", b"PLAIN", plain_message(b"heavy", b"wrong")))
            for number in range(50):
                assert ann.ask(set_request(b"k", b"%d" % number) + b"get nothing\r\n") == b"STORED\r\n" + END
            assert not has_answered(text) and not has_answered(binary), "the worker waited for the password"
            wanted = FAILURE + UNAUTHENTICATED + b"STORED\r\n" + END
            assert text.read_exact(len(wanted)) == wanted
            assert read(binary) == failure("sasl_auth", AUTH)
            assert wire_auth(binary, b"ann", b"one").status == OK
        assert logins(running) == (6, 3)
    finally:
        running.stop()


def test_who_is_wrong_too_often_waits_and_others_do_not(tmp_path):
    users = tmp_path / "users"
    users.write_text("ann:one\n", encoding="ascii")
    running = servers.start_cotenant(["-Y", str(users)])

    def waits():
        ((_, value),) = samples(running)["cotenant_login_waits_total"]
        return value

    try:
        wrong = 0
        while waits() == 0:
            assert wrong < 300, "nobody waits"
            with running.wire() as wire:
                wire.send(set_request(b"auth", b"ann two") * ATTEMPTS)
                assert wire.read_to_close() == FAILURE * ATTEMPTS
                wrong += ATTEMPTS
        assert 32 <= wrong
        before = waits()
        with socket.create_connection(running.address, DEADLINE_S, ("127.0.0.2", 0)) as elsewhere:
            elsewhere.sendall(set_request(b"auth", b"ann one"))
            assert elsewhere.recv(100) == b"STORED\r\n"
        assert waits() == before, "another address has its own"
        with running.wire() as wire:
            assert wire.ask(set_request(b"auth", b"ann one")) == b"STORED\r\n", "nobody is locked out"
    finally:
        running.stop()


def test_a_flood_of_guesses_keeps_the_user_out_of_nothing(tmp_path):
    """Guesses at a hashed password, more at once than may be wrong; who knows it comes from elsewhere."""
    users = tmp_path / "users"
    users.write_text(f"carol:{HASH}\n", encoding="ascii")
    running = servers.start_cotenant(["-Y", str(users)])
    guessers = []
    try:
        for number in range(200):
            source = (f"127.0.1.{number % 10 + 1}", 0)
            guessers.append(socket.create_connection(running.address, DEADLINE_S, source))
        for guesser in guessers:
            guesser.sendall(set_request(b"auth", b"carol guess"))
        told, until = [], time.monotonic() + DEADLINE_S
        while len(told) < 32:
            assert time.monotonic() < until, "those who may be wrong are not told"
            told, _, _ = select.select(guessers, [], [], 0.01)
        with socket.create_connection(running.address, DEADLINE_S, ("127.0.2.1", 0)) as carol:
            carol.sendall(set_request(b"auth", b"carol password"))
            assert carol.recv(100) == b"STORED\r\n"
    finally:
        for guesser in guessers:
            guesser.close()
        running.stop()
