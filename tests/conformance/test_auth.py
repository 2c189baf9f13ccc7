"""Passwords: in both protocols from one table, users as tenants, what credentials allow, and reloading."""

import signal
import socket
import time

import pytest

from conformance import servers
from conformance.test_admin import ask, wait_until
from conformance.test_tenants import samples
from conformance.packets import AUTH, CONTINUE, NOT_FOUND, OK, UNKNOWN, BinaryWire, count, failure, packet, read, store, touch
from conformance.wire import DEADLINE_S, END, TOO_MANY, Closed, set_request

pytestmark = pytest.mark.cotenant

#: `password`, of Argon2's own test vectors.
HASH = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
USERS = f"""ann:one
bob:two:with:colons

carol:{HASH}
reader:read
keeper:keep
"""
CONFIG = """
memory = "64MiB"
read_only_users = ["reader"]
no_flush_users = ["keeper"]

[tenant.team]
users = ["reader", "keeper", "writer"]
"""

UNAUTHENTICATED = b"CLIENT_ERROR unauthenticated\r\n"
FAILURE = b"CLIENT_ERROR authentication failure\r\n"
BAD_TOKEN = b"CLIENT_ERROR bad authentication token format\r\n"
READ_ONLY = b"CLIENT_ERROR read-only credentials\r\n"
NO_FLUSH = b"CLIENT_ERROR flush_all not allowed\r\n"
ATTEMPTS = 5


class Guarded:
    """A server that asks for passwords, and its file of users."""

    def __init__(self, folder, *arguments):
        self.file = folder / "users"
        self.file.write_text(USERS + "writer:write\nspaced:three  words here \n", encoding="ascii")
        config = folder / "cotenant.toml"
        config.write_text(CONFIG, encoding="ascii")
        self.server = servers.start_cotenant(["--config", str(config), "-Y", str(self.file), "-S", *arguments], memory=None)

    def text(self, user, password):
        wire = self.server.wire()
        assert wire.ask(set_request(b"auth", b"%b %b" % (user, password))) == b"STORED\r\n"
        return wire

    def binary(self, user, password):
        wire = BinaryWire(self.server.address)
        assert wire_auth(wire, user, password).value == b"Authenticated"
        return wire

    def reload(self, text, wanted):
        """Replaces the file; waits until the log says what became of it."""
        self.file.write_text(text, encoding="ascii")
        before = len(self.server.log)
        self.server.process.send_signal(signal.SIGHUP)
        until = time.monotonic() + DEADLINE_S
        while not any(wanted in line for line in self.server.log[before:]):
            assert time.monotonic() < until, self.server.said()
            time.sleep(0.01)


def plain_message(user, password):
    return b"\0%b\0%b" % (user, password)


def wire_auth(wire, user, password, name="sasl_auth", mechanism=b"PLAIN"):
    """The answer to a try; unlike `ask` without a `noop`, which strangers may not send."""
    wire.send(packet(name, mechanism, plain_message(user, password)))
    return read(wire)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    guarded = Guarded(tmp_path_factory.mktemp("auth"))
    yield guarded
    assert guarded.server.stop() == 0


def test_text_strangers_get_the_version_and_nothing_else(guarded):
    with guarded.server.wire() as wire:
        for request, answer in [
            (b"get a\r\n", UNAUTHENTICATED), (b"stats\r\n", UNAUTHENTICATED), (b"flush_all\r\n", UNAUTHENTICATED),
            (b"mn\r\n", UNAUTHENTICATED), (b"mg a v\r\n", UNAUTHENTICATED), (b"quit\r\n", UNAUTHENTICATED),
            (b"set a 0 0\r\n", UNAUTHENTICATED), (b"set a 0 0 x\r\n", UNAUTHENTICATED),
            (b"set a 0 0 1\r\nx\r\n", BAD_TOKEN), (set_request(b"a", b"x" * 5000), BAD_TOKEN),
            (b"set a 0 0 3\r\na bcd", b"CLIENT_ERROR bad command line termination\r\n"),
        ]:
            assert wire.ask(request) == answer, request
        assert wire.version_line.startswith(b"VERSION ")


def test_each_line_of_a_stranger_has_its_answer(guarded):
    """Also of those that come together."""
    with guarded.server.wire() as wire:
        assert wire.ask(b"get a\r\nget b\r\n" + set_request(b"auth", b"ann one")) == UNAUTHENTICATED * 2 + b"STORED\r\n"


@pytest.mark.parametrize("user,password", [(b"ann", b"one"), (b"bob", b"two:with:colons"), (b"carol", b"password"), (b"spaced", b"three  words here ")])
def test_right_passwords(guarded, user, password):
    with guarded.text(user, password) as text, guarded.binary(user, password) as binary:
        assert text.ask(set_request(b"k", user)) == b"STORED\r\n"
        assert binary.one(packet("get", b"k")).value == user


@pytest.mark.parametrize("user,password", [(b"ann", b"two"), (b"nobody", b"one"), (b"carol", b"passwore"), (b"ann", b"on"), (b"ann", b"one more"), (b"spaced", b"three")])
def test_wrong_passwords(guarded, user, password):
    with guarded.server.wire() as wire:
        assert wire.ask(set_request(b"auth", b"%b %b" % (user, password))) == FAILURE
        assert wire.ask(b"get a\r\n") == UNAUTHENTICATED
        assert wire.ask(set_request(b"auth", b"ann one")) == b"STORED\r\n"
        assert wire.ask(b"get nothing\r\n") == END
    with BinaryWire(guarded.server.address) as wire:
        assert wire_auth(wire, user, password) == failure("sasl_auth", AUTH)
        assert wire_auth(wire, b"ann", b"one").status == OK
        # A failure takes back what was granted.
        assert wire_auth(wire, user, password) == failure("sasl_auth", AUTH)
        assert wire.last_words(packet("get", b"k")) == [failure("get", AUTH)]


def test_attempts_are_limited(guarded):
    with guarded.server.wire() as wire:
        tries = set_request(b"auth", b"ann two") * (ATTEMPTS + 3)
        wire.send(tries)
        assert wire.read_to_close() == FAILURE * ATTEMPTS
    with BinaryWire(guarded.server.address) as wire:
        one = packet("sasl_auth", b"PLAIN", plain_message(b"ann", b"two"))
        assert wire.last_words(one * (ATTEMPTS + 3)) == [failure("sasl_auth", AUTH)] * ATTEMPTS


def test_who_has_yet_to_log_in_counts_for_nobody(tmp_path):
    users, config = tmp_path / "users", tmp_path / "cotenant.toml"
    users.write_text("ann:one\nbob:two\n", encoding="ascii")
    config.write_text('shared_users = ["bob"]\n', encoding="ascii")
    server = servers.start_cotenant(["--config", str(config), "-Y", str(users)])
    connections = lambda name: ask(server, "GET", f"/tenants/{name}")[1]["connections"]
    try:
        assert ask(server, "PUT", "/tenants/default", {"max_connections": 1})[0] == 200
        with server.wire() as stranger, BinaryWire(server.address) as bob, server.wire() as ann, server.wire() as late:
            assert stranger.version_line and connections("default") == 0
            assert wire_auth(bob, b"bob", b"two").status == OK
            assert ann.ask(set_request(b"auth", b"ann one") + b"mn\r\n") == b"STORED\r\nMN\r\n"
            wait_until(lambda: (connections("default"), connections("ann")) == (1, 1))
            late.send(set_request(b"auth", b"bob two"))
            assert late.read_to_close() == b"STORED\r\n" + TOO_MANY
            # A wrong password takes the place back with what was granted.
            assert wire_auth(bob, b"bob", b"three").status == AUTH
            wait_until(lambda: connections("default") == 0)
        wait_until(lambda: connections("ann") == 0)
    finally:
        server.stop()


def test_binary_strangers(guarded):
    with BinaryWire(guarded.server.address) as wire:
        wire.send(packet("sasl_list") + packet("version"))
        assert read(wire).value == b"PLAIN"
        assert read(wire).value.decode() == guarded.server.version
    for request, name in [
        (packet("get", b"k"), "get"), (store("set", b"k", b"v"), "set"), (packet("noop"), "noop"),
        (packet("stat"), "stat"), (packet("quit"), "quit"), (packet(0x77, value=b"x"), 0x77),
        (store("set", b"k", b"x" * 100)[:60], "set"),
    ]:
        with BinaryWire(guarded.server.address) as wire:
            assert wire.last_words(request) == [failure(name, AUTH)], name


def test_sasl_by_steps(guarded):
    with BinaryWire(guarded.server.address) as wire:
        wire.send(packet("sasl_step", b"PLAIN", plain_message(b"ann", b"one")))
        assert read(wire) == failure("sasl_step", AUTH)
        wire.send(packet("sasl_auth", b"PLAIN"))
        assert (got := read(wire)).status == CONTINUE and got.value == b""
        assert wire_auth(wire, b"ann", b"one", "sasl_step").value == b"Authenticated"
        assert wire_auth(wire, b"ann", b"one", mechanism=b"CRAM-MD5") == failure("sasl_auth", AUTH)
        assert wire_auth(wire, b"ann", b"one", mechanism=b"M" * 33).status == 4
        wire.send(packet("sasl_auth", b"PLAIN", b"\0" * 2000))
        assert read(wire).status == 0x82
        wire.send(packet("sasl_auth", b"PLAIN", b"bob\0ann\0one"))
        assert read(wire) == failure("sasl_auth", AUTH)
    with guarded.binary(b"ann", b"one") as wire:
        wire.send(packet("sasl_auth", b"PLAIN"))
        assert read(wire).status == CONTINUE
        assert wire.last_words(packet("get", b"k")) == [failure("get", AUTH)], "who begins anew is nobody until that is through"


def test_a_password_may_be_followed_at_once(guarded):
    with guarded.server.wire() as wire:
        wire.send(set_request(b"auth", b"ann one") + set_request(b"x", b"1") + b"get x\r\nversion\r\n")
        wanted = b"STORED\r\nSTORED\r\nVALUE x 0 1\r\n1\r\n" + END
        assert wire.read_exact(len(wanted)) == wanted
        wire.read_line()
    with BinaryWire(guarded.server.address) as wire:
        answers = wire.ask(packet("sasl_auth", b"PLAIN", plain_message(b"ann", b"one")) + packet("get", b"x"))
        assert [a.value for a in answers] == [b"Authenticated", b"1"]


def test_users_are_tenants(guarded):
    with guarded.text(b"ann", b"one") as ann, guarded.text(b"bob", b"two:with:colons") as bob:
        assert ann.ask(set_request(b"mine", b"ann's")) == b"STORED\r\n"
        assert bob.value(b"mine") is None
        assert bob.ask(set_request(b"mine", b"bob's") + b"flush_all\r\n") == b"STORED\r\nOK\r\n"
        assert ann.value(b"mine") == b"ann's"
        assert bob.stats()["curr_items"] == "0"
        assert int(ann.stats()["curr_items"]) >= 1
        assert "team" not in {name.split(":")[0] for name in ann.stats(b"tenants")}
    with guarded.text(b"writer", b"write") as writer, guarded.text(b"reader", b"read") as reader:
        assert writer.ask(set_request(b"shared", b"of the team")) == b"STORED\r\n"
        assert reader.value(b"shared") == b"of the team"


def test_read_only_users(guarded):
    with guarded.text(b"writer", b"write") as writer, guarded.text(b"reader", b"read") as reader:
        writer.ask(set_request(b"r", b"5"))
        for request in (
            set_request(b"r", b"6"), b"add r 0 0 1\r\nx\r\n", b"append r 0 0 1\r\nx\r\n", b"cas r 0 0 1 1\r\nx\r\n",
            b"delete r\r\n", b"incr r 1\r\n", b"touch r 1\r\n", b"gat 1 r\r\n", b"flush_all\r\n", b"cache_memlimit 8\r\n",
            b"ms r 1\r\nx\r\n", b"md r\r\n", b"ma r\r\n", b"mg r v T1\r\n", b"mg other v N0\r\n",
        ):
            assert reader.ask(request) == READ_ONLY, request
        assert reader.ask(set_request(b"r", b"6", noreply=True) + b"delete r noreply\r\n") == b""
        assert reader.ask(set_request(b"r", b"x" * (2 << 20))).startswith(b"SERVER_ERROR")
        assert reader.value(b"r") == b"5"
        assert reader.ask(b"mg r v\r\nmn\r\n") == b"VA 1\r\n5\r\nMN\r\n"
    with guarded.binary(b"reader", b"read") as reader:
        for request in (
            store("setq", b"r", b"6"), store("add", b"r", b"6"), packet("append", b"r", b"6"), packet("deleteq", b"r"),
            count("increment", b"r", 1), touch("touch", b"r", 1), touch("gatq", b"r", 1), packet("flushq"),
            store("set", b"r", b"x" * (2 << 20)),
        ):
            answer = reader.one(request)
            assert (answer.status, answer.value) == (AUTH, b"read-only credentials")
        assert reader.one(packet("get", b"r")).value == b"5"
        assert len(reader.ask(packet("stat"))) > 50


def test_who_may_only_read_is_not_told_to_store_again(guarded):
    """The one who is told so is somebody who can."""
    with guarded.text(b"writer", b"write") as writer, guarded.text(b"reader", b"read") as reader:
        writer.ask(set_request(b"stale", b"old") + b"md stale I T60\r\n")
        for request in (b"mg stale v\r\n", b"mg c3RhbGU= v b\r\n"):
            assert reader.ask(request) == b"VA 3 Z X\r\nold\r\n"
        assert writer.ask(b"mg stale v\r\n") == b"VA 3 X W\r\nold\r\n"
        for wire in (reader, writer):
            assert wire.ask(b"mg stale v\r\n") == b"VA 3 Z X\r\nold\r\n"


def test_who_may_only_read_resets_no_figures(guarded):
    with guarded.text(b"reader", b"read") as reader:
        reader.value(b"nothing")
        gets = int(reader.stats()["cmd_get"])
        for what in (b"reset", b"detail on", b"detail off", b" reset  now"):
            assert reader.ask(b"stats %b\r\n" % what) == READ_ONLY
        assert reader.ask(b"stats detail dump\r\n") == END
        with guarded.binary(b"reader", b"read") as binary:
            for what in (b"reset", b"resetting", b"detail on", b"detail off"):
                answer = binary.one(packet("stat", what))
                assert (answer.status, answer.value) == (AUTH, b"read-only credentials")
        assert 0 < gets <= int(reader.stats()["cmd_get"])
    with guarded.text(b"writer", b"write") as writer:
        assert writer.ask(b"stats reset\r\n") == b"RESET\r\n"


def test_a_users_stats_detail_is_nobody_elses(guarded):
    with guarded.text(b"ann", b"one") as ann, guarded.text(b"bob", b"two:with:colons") as bob:
        for said, shown in ((b"on", "yes"), (b"off", "no")):
            assert ann.ask(b"stats detail %b\r\n" % said) == b"OK\r\n"
            assert ann.stats(b"settings")["detail_enabled"] == shown
            assert bob.stats(b"settings")["detail_enabled"] == "no"


def test_users_who_may_not_flush(guarded):
    with guarded.text(b"keeper", b"keep") as keeper:
        assert keeper.ask(set_request(b"f", b"1") + b"flush_all\r\nflush_all noreply\r\n") == b"STORED\r\n" + NO_FLUSH
        assert keeper.value(b"f") == b"1"
    with guarded.binary(b"keeper", b"keep") as keeper:
        answer = keeper.one(packet("flush"))
        assert (answer.status, answer.value) == (AUTH, b"flush_all not allowed")
        assert keeper.one(store("set", b"f", b"2")).status == OK


def logins(server):
    """Passwords that were shown, and that were wrong: the operator's to know."""
    seen = samples(server)
    return tuple(seen[f"cotenant_{name}_total"][0][1] for name in ("logins", "logins_failed"))


def test_attempts_are_counted(guarded):
    commands, errors = logins(guarded.server)
    with guarded.server.wire() as wire:
        wire.ask(set_request(b"auth", b"ann wrong"))
    with guarded.text(b"ann", b"one") as wire:
        assert logins(guarded.server) == (commands + 2, errors + 1)
        stats = wire.stats()
        assert (stats["auth_cmds"], stats["auth_errors"]) == ("0", "0"), "a tenant hears of nobody else's"
        settings = wire.stats(b"settings")
        assert (settings["auth_enabled_sasl"], settings["auth_enabled_ascii"]) == ("yes", "yes")


def test_reload(guarded):
    with guarded.text(b"ann", b"one") as ann:
        everybody = guarded.file.read_text(encoding="ascii")
        guarded.reload(everybody.replace("ann:one", "ann:uno") + "dave:late\n", "users are known")
        assert ann.ask(b"get nothing\r\n") == END
        with guarded.server.wire() as wire:
            assert wire.ask(set_request(b"auth", b"ann one")) == FAILURE
        guarded.text(b"ann", b"uno").close()
        guarded.binary(b"dave", b"late").close()
        # What cannot be used changes nothing, and is told without its text.
        guarded.reload("ann:uno\nnot-a-secret-line\n", "users:2: no ':'")
        guarded.text(b"ann", b"uno").close()
        guarded.binary(b"dave", b"late").close()
        guarded.reload(everybody, "users are known")
        guarded.text(b"ann", b"one").close()


@pytest.mark.parametrize(
    "wrong, what",
    [
        ("zoe:$argon2id$nonsense\n", "the hash is no Argon2 hash"),
        ("no/name:zoe\n", "user 'no/name' cannot be bound to a tenant"),
    ],
)
def test_a_file_that_is_refused_makes_no_tenants(guarded, wrong, what):
    everybody = guarded.file.read_text(encoding="ascii")
    try:
        guarded.reload(everybody + "early:1\n" + wrong, what)
        assert ask(guarded.server, "GET", "/tenants/early")[0] == 404
    finally:
        guarded.reload(everybody, "users are known")


def test_users_that_do_not_all_fit_make_no_tenants(tmp_path):
    users = tmp_path / "users"
    users.write_text("ann:1\n", encoding="ascii")
    running = servers.start_cotenant(["-Y", str(users), "--max-tenants", "4"])
    try:
        users.write_text("ann:1\n" + "".join(f"late{n}:2\n" for n in range(4)), encoding="ascii")
        running.process.send_signal(signal.SIGHUP)
        until = time.monotonic() + DEADLINE_S
        while not any("raise max_tenants" in line for line in running.log):
            assert time.monotonic() < until, running.said()
            time.sleep(0.01)
        names = [tenant["name"] for tenant in ask(running, "GET", "/tenants")[1]["tenants"]]
        assert names == ["default", "ann"]
    finally:
        running.stop()


def test_no_password_is_said(tmp_path):
    """Passwords that are right, wrong and no longer right, in both protocols, while the log says all that it can."""
    guarded = Guarded(tmp_path, "-vvv")
    try:
        everybody = guarded.file.read_text(encoding="ascii")
        with guarded.text(b"bob", b"two:with:colons") as wire:
            assert wire.stats(b"settings")["verbosity"] == "3"
        guarded.binary(b"carol", b"password").close()
        with guarded.server.wire() as wire, BinaryWire(guarded.server.address) as packets:
            assert wire.ask(set_request(b"auth", b"bob not-bobs-text")) == FAILURE
            assert wire_auth(packets, b"bob", b"not-bobs-packet").status == AUTH
            assert wire_auth(packets, b"nobody", b"of-a-stranger").status == AUTH
            assert wire.ask(set_request(b"auth", b"token-without-a-blank")) == BAD_TOKEN
        guarded.reload(everybody.replace("bob:two:with:colons", "bob:three-reloaded"), "users are known")
        with guarded.server.wire() as wire:
            assert wire.ask(set_request(b"auth", b"bob two:with:colons")) == FAILURE
        guarded.text(b"bob", b"three-reloaded").close()
        guarded.reload("bob:three-reloaded\nnot-a-secret-line\n", "users:2: no ':'")
        guarded.binary(b"bob", b"three-reloaded").close()
    finally:
        assert guarded.server.stop() == 0
    said = "\n".join(guarded.server.log)
    # The hash is looked for by its salt and its end, `password` by what its user has.
    for secret in (
        "two:with:colons", "with:colons", "not-bobs", "of-a-stranger", "token-without", "three-reloaded", "not-a-secret",
        "carol:", HASH, "c29tZXNhbHQ", "nf65EOgLrQMR",
    ):
        assert secret not in said, secret


def test_without_a_file_nobody_is_asked(server):
    with BinaryWire(server.address) as wire:
        assert wire.one(packet("sasl_list")) == failure("sasl_list", UNKNOWN)
        assert wire.one(packet("flush")).status == OK
        assert wire.one(packet("get", b"absent")).status == NOT_FOUND


def test_shared_users(tmp_path):
    users = tmp_path / "users"
    users.write_text("old:1\nnew:2\n", encoding="ascii")
    running = servers.start_cotenant(["-Y", str(users), "--shared-users", "*"])
    try:
        with running.wire() as old, running.wire() as new:
            assert old.ask(set_request(b"auth", b"old 1") + set_request(b"k", b"v")) == b"STORED\r\n" * 2
            assert new.ask(set_request(b"auth", b"new 2") + b"get k\r\n") == b"STORED\r\nVALUE k 0 1\r\nv\r\n" + END
    finally:
        running.stop()


def test_a_prefix_does_not_take_the_name_of_a_user_to_come(tmp_path):
    users = tmp_path / "users"
    users.write_text("old:1\n", encoding="ascii")
    running = servers.start_cotenant(["-Y", str(users), "--shared-users", "old", "-D", ":"])
    try:
        with running.wire() as old:
            assert old.ask(set_request(b"auth", b"old 1") + set_request(b"ann:k", b"v")) == b"STORED\r\n" * 2
            # Names that look the same, for their bytes are no text.
            assert old.ask(b"".join(set_request(b"%c:k" % byte, b"v") for byte in (0xFE, 0xFD, 0xFC))) == b"STORED\r\n" * 3
            names = {name.split(":items")[0] for name in old.stats(b"tenants") if name.endswith(":items")}
            assert len(names) == 5 and "ann:" in names, names
            users.write_text("old:1\nann:2\n", encoding="ascii")
            running.process.send_signal(signal.SIGHUP)
            until = time.monotonic() + DEADLINE_S
            while not any("users are known" in line for line in running.log):
                assert time.monotonic() < until, running.said()
                time.sleep(0.01)
            with running.wire() as ann:
                assert ann.ask(set_request(b"auth", b"ann 2") + b"get k ann:k\r\n") == b"STORED\r\n" + END
            assert old.ask(b"get ann:k\r\n") == b"VALUE ann:k 0 1\r\nv\r\n" + END
    finally:
        running.stop()


def test_garbage_from_strangers_ends(guarded):
    with guarded.server.wire() as wire:
        wire.send(b"x" * 5000)
        with pytest.raises(Closed):
            wire.read_exact(1)
    with guarded.text(b"ann", b"one") as wire:
        assert wire.stats()["pid"] == str(guarded.server.pid)


def test_a_large_value_of_who_may_only_read_is_refused_before_it_comes(tmp_path):
    """Values longer than a segment (128 KiB here) get memory as they come."""
    file, config = tmp_path / "users", tmp_path / "cotenant.toml"
    file.write_text(USERS, encoding="ascii")
    config.write_text(CONFIG, encoding="ascii")
    server = servers.start_cotenant(["--config", str(config), "-Y", str(file), "-S", "-I", "2m"], memory=None)
    with BinaryWire(server.address) as wire:
        assert wire_auth(wire, b"reader", b"read").value == b"Authenticated"
        value = b"x" * 1_500_000
        whole = store("set", b"r", value)
        wire.send(whole[: -len(value)])
        header = wire.read_exact(24)
        wire.read_exact(int.from_bytes(header[8:12], "big"))
        assert int.from_bytes(header[6:8], "big") == AUTH
        wire.send(value)
        assert wire.one(packet("get", b"r")).status == NOT_FOUND, "the value is passed over"
    assert server.stop() == 0


@pytest.mark.parametrize("engine", ["epoll", "io_uring"])
def test_who_has_left_keeps_no_place_for_an_attempt_that_waits(tmp_path, engine):
    """Most of the table is clients that have shown a wrong password and gone, by a farewell or a reset, while it waits for a token."""
    users = tmp_path / "users"
    users.write_text("ann:one\n", encoding="ascii")
    server = servers.start_cotenant(["-Y", str(users), "-c", "100", "--io-engine", engine])

    def sample(name):
        ((_, value),) = samples(server)[name]
        return value

    try:
        for number in range(132):
            wire = server.wire()
            wire.send(set_request(b"a", b"ann wrong"))
            wire.reset() if number % 2 else wire.close()
        wait_until(lambda: sample("memcached_current_connections") == 0)
        # Who is there is told in its turn, and the wait of an attempt is one however often it is asked about.
        before, attempts = sample("cotenant_login_waits_total"), 3
        for _ in range(attempts):
            with server.wire() as wire:
                wire.send(set_request(b"a", b"ann wrong"))
                assert wire.read_exact(len(FAILURE)) == FAILURE
        assert sample("cotenant_login_waits_total") - before <= attempts
        # Who sends no more and waits for the answer has it where nothing has to wait.
        with socket.create_connection(server.address, DEADLINE_S, ("127.0.0.2", 0)) as half:
            half.sendall(set_request(b"a", b"ann one"))
            half.shutdown(socket.SHUT_WR)
            assert half.recv(100) == b"STORED\r\n"
    finally:
        server.stop()
