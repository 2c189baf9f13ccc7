"""TLS and the PROXY header: is what comes through the same, do keys change under way, whose is a certificate?"""

import contextlib
import os
import re
import signal
import socket
import ssl
import subprocess
import struct
import time

import pytest
from pymemcache.client.base import Client

from conformance import servers
from conformance.certificates import Authority
from conformance.test_admin import ask, wait_until
from conformance.wire import DEADLINE_S, TOO_MANY

pytestmark = pytest.mark.cotenant


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


def options(authority, certificate, key):
    named = f"ssl_chain_cert={certificate},ssl_key={key},ssl_ca_cert={authority.certificate}"
    return ("-Z", "-o", named)


def ports(server, kind):
    """Ports of the listeners that the start-up line calls `kind`."""
    found = re.findall(rf"memcached {servers.ADDRESS}( \([^)]*\))?", server.ready_line)
    return [int(port) for _, port, said in found if said.strip(" ()") == kind]


def context(authority, client=None):
    made = ssl.create_default_context(cafile=str(authority.certificate))
    if client:
        made.load_cert_chain(*map(str, client))
    return made


class Secure:
    """A connection over TLS, or over whatever `sock` is."""

    def __init__(self, port, made=None, header=b""):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
        self.sock.sendall(header)
        if made:
            self.sock = made.wrap_socket(self.sock, server_hostname="localhost")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def ask(self, data, end=b"\r\n"):
        self.sock.sendall(data)
        got = b""
        while not got.endswith(end):
            more = self.sock.recv(1 << 16)
            assert more, f"closed after {got[-100:]!r}"
            got += more
        return got

    def is_closed(self):
        try:
            # A goodbye of TLS may come first.
            while self.sock.recv(4096):
                pass
            return True
        except TimeoutError:
            return False
        except (ConnectionError, ssl.SSLError):
            return True


class Told:
    """A connection over TLS whose bytes go when they are told to."""

    def __init__(self, port, made):
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = made.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self):
        self.sock.sendall(self.outgoing.read())

    def until_done(self, step):
        """What a step of TLS gives once the server has sent what that needs; what the step says last is kept back."""
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                self.send()
                more = self.sock.recv(1 << 18)
                assert more, "closed"
                self.incoming.write(more)

    def shake_hands(self):
        """All of the handshake but the client's last word, which is kept back."""
        self.until_done(self.tls.do_handshake)
        assert self.tls.version() == "TLSv1.3" and self.outgoing.pending

    def say_goodbye(self):
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.unwrap()

    def hears_the_end(self):
        while self.sock.recv(1 << 16):
            pass
        return True


@contextlib.contextmanager
def stopped(server):
    """The server sees nothing of what is sent meanwhile before all of it is there."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@contextlib.contextmanager
def silent(port, count):
    """So many connections on which nobody says a word."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        yield


def is_served(port, authority):
    with Secure(port, context(authority)) as client:
        assert client.ask(b"version\r\n") == b"VERSION 1.6.45\r\n"


@pytest.fixture
def alone(authority, fresh):
    """A server with one worker, which listens without TLS, too."""
    named = options(authority, *authority.issue("server"))
    return fresh(*named, "-t", "1", "-l", "notls:127.0.0.1:0,127.0.0.1:0")


@pytest.fixture
def secure(authority, fresh):
    """A server with a listener of each kind."""
    certificate, key = authority.issue("server")
    listeners = "notls:127.0.0.1:0,127.0.0.1:0,mtls:127.0.0.1:0,proxy:127.0.0.1:0,notls:proxy:127.0.0.1:0"
    return fresh(
        *options(authority, certificate, key), "-l", listeners, "--tenant", "name=feeds,identity=feeds.example"
    )


def test_what_goes_in_comes_out(authority, secure):
    port = ports(secure, "TLS")[0]
    with Secure(port, context(authority)) as client:
        for size in (0, 1, 100, 16_384, 16_385, 700_000):
            value = bytes(i % 251 for i in range(size))
            assert client.ask(b"set k 0 0 %d\r\n%s\r\n" % (size, value)) == b"STORED\r\n"
            wanted = b"VALUE k 0 %d\r\n%s\r\nEND\r\n" % (size, value)
            assert client.ask(b"get k\r\n", b"END\r\n") == wanted
        client.ask(b"set k 0 0 3\r\nabc\r\n")
        many = 5_000
        got = client.ask(b"get k\r\n" * many + b"get none\r\nversion\r\n", b"VERSION 1.6.45\r\n")
        assert got == b"VALUE k 0 3\r\nabc\r\nEND\r\n" * many + b"END\r\nVERSION 1.6.45\r\n"
        client.sock.sendall(b"quit\r\n")
        assert client.is_closed()
    with secure.wire() as plain:
        stats = plain.stats()
    assert int(stats["ssl_new_sessions"]) == 1
    assert stats["ssl_handshake_errors"] == "0"


def test_replies_that_are_not_read_at_once_are_whole(authority, secure):
    port = ports(secure, "TLS")[0]
    value = bytes(i % 253 for i in range(500_000))
    with Secure(port, context(authority)) as client:
        client.ask(b"set big 0 0 %d\r\n%s\r\n" % (len(value), value))
        one = b"VALUE big 0 %d\r\n%s\r\nEND\r\n" % (len(value), value)
        client.sock.sendall(b"get big\r\n" * 40 + b"version\r\n")
        # Another connection is served while this one's replies wait in the socket.
        with Secure(port, context(authority)) as other:
            assert other.ask(b"version\r\n") == b"VERSION 1.6.45\r\n"
        got = bytearray()
        while not got.endswith(b"VERSION 1.6.45\r\n"):
            more = client.sock.recv(1 << 20)
            assert more
            got += more
    assert got == one * 40 + b"VERSION 1.6.45\r\n"


def test_a_client_library_speaks_tls(authority, secure):
    client = Client(("localhost", ports(secure, "TLS")[0]), tls_context=context(authority))
    assert client.set("key", b"value", noreply=False)
    assert client.get("key") == b"value"
    assert client.get_many(["key", "none"]) == {"key": b"value"}
    client.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_are_spoken(authority, secure, version):
    made = context(authority)
    made.minimum_version = made.maximum_version = version
    with Secure(ports(secure, "TLS")[0], made) as client:
        assert client.ask(b"version\r\n") == b"VERSION 1.6.45\r\n"


def test_who_does_not_shake_hands_harms_nobody(authority, secure):
    port = ports(secure, "TLS")[0]
    with silent(port, 50):
        with Secure(port) as wrong:
            wrong.sock.sendall(b"get a\r\n" * 100)
            assert wrong.is_closed()
        is_served(port, authority)
    secure.check_alive()


def test_keys_change_under_way(authority, secure):
    port = ports(secure, "TLS")[0]
    with Secure(port, context(authority)) as old:
        before = old.sock.getpeercert(binary_form=True)
        authority.issue("server-2", file="server")
        secure.process.send_signal(signal.SIGHUP)
        after, until = before, time.monotonic() + DEADLINE_S
        while after == before:
            assert time.monotonic() < until, secure.said()
            with Secure(port, context(authority)) as new:
                after = new.sock.getpeercert(binary_form=True)
                assert new.ask(b"version\r\n") == b"VERSION 1.6.45\r\n"
        assert old.ask(b"version\r\n") == b"VERSION 1.6.45\r\n"
        # By the command, too; what cannot be used leaves the old keys in force.
        authority.issue("server-3", file="server")
        assert old.ask(b"refresh_certs\r\n") == b"OK\r\n"
        with Secure(port, context(authority)) as new:
            third = new.sock.getpeercert(binary_form=True)
        assert third not in (before, after)
        (authority.folder / "server.pem").write_text("nothing")
        assert old.ask(b"refresh_certs\r\n").startswith(b"Error ")
        with Secure(port, context(authority)) as new:
            assert new.sock.getpeercert(binary_form=True) == third


def test_without_tls_there_are_no_keys_to_read(fresh):
    with fresh().wire() as wire:
        assert wire.ask(b"refresh_certs\r\n") == b"Error TLS not enabled\r\n"


def test_a_certificate_is_a_tenant(authority, secure):
    port = ports(secure, "mutual TLS")[0]
    feeds = authority.issue("someone", "DNS:feeds.example")
    other = authority.issue("other", "DNS:other.example")
    with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
        with Secure(port, context(authority)) as none:
            none.ask(b"version\r\n")
    with Secure(port, context(authority, feeds)) as one, Secure(port, context(authority, other)) as two:
        assert one.ask(b"set k 0 0 1\r\n1\r\n") == b"STORED\r\n"
        assert two.ask(b"get k\r\n") == b"END\r\n"
        assert two.ask(b"set k 0 0 1\r\n2\r\n") == b"STORED\r\n"
        assert one.ask(b"get k\r\n", b"END\r\n") == b"VALUE k 0 1\r\n1\r\nEND\r\n"
        assert one.ask(b"flush_all\r\n") == b"OK\r\n"
        assert two.ask(b"get k\r\n", b"END\r\n") == b"VALUE k 0 1\r\n2\r\nEND\r\n"


def proxy_header(client="10.1.2.3", port=4242, command=1):
    body = socket.inet_aton(client) + socket.inet_aton("127.0.0.1") + struct.pack(">HH", port, 11211)
    return b"\r\n\r\n\0\r\nQUIT\n" + bytes([0x20 | command, 0x11]) + struct.pack(">H", len(body)) + body


def test_a_proxy_header_comes_first(authority, secure):
    plain = ports(secure, "")[1]
    tls = ports(secure, "TLS")[1]
    for header in (proxy_header(), proxy_header(command=0)):
        with Secure(plain, header=header + b"set k 0 0 1\r\n1\r\n") as client:
            assert client.ask(b"get k\r\n", b"END\r\n").endswith(b"VALUE k 0 1\r\n1\r\nEND\r\n")
        with Secure(tls, context(authority), header=header) as client:
            assert client.ask(b"get k\r\n", b"END\r\n") == b"VALUE k 0 1\r\n1\r\nEND\r\n"
    # Cut anywhere.
    header = proxy_header()
    with Secure(plain) as client:
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in header:
            client.sock.sendall(bytes([byte]))
        assert client.ask(b"version\r\n") == b"VERSION 1.6.45\r\n"
    for wrong in (b"get k\r\n", b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\nget k\r\n", header[:13] + b"\xff" * 40):
        with Secure(plain, header=wrong) as client:
            assert client.is_closed()


def test_keys_that_do_not_go_together_are_told(authority, tmp_path):
    certificate, _ = authority.issue("one")
    _, key = authority.issue("two")
    with pytest.raises(AssertionError, match="cannot speak TLS: cannot use the certificate"):
        servers.start_cotenant([*options(authority, certificate, key), "-l", "127.0.0.1:0"])
    with pytest.raises(AssertionError, match=r"cannot speak TLS: cannot read the private key .*gone\.key"):
        servers.start_cotenant([*options(authority, certificate, tmp_path / "gone.key"), "-l", "127.0.0.1:0"])


def made(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def test_a_key_is_read_in_each_of_its_forms(authority, fresh, tmp_path):
    """As PKCS #8, SEC 1 and PKCS #1, in PEM, in DER, and under a heading that says another."""
    certificate, key = authority.issue("forms")
    rsa, signed = tmp_path / "rsa.key", tmp_path / "rsa.pem"
    made("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", rsa, "-out", signed, "-days", "30", "-CA", authority.certificate, "-CAkey", authority.key)
    forms = {name: tmp_path / name for name in ("ec.sec1.pem", "ec.sec1.der", "ec.pkcs8.der", "rsa.pkcs1.pem", "rsa.pkcs1.der")}
    made("ec", "-in", key, "-out", forms["ec.sec1.pem"])
    made("ec", "-in", key, "-outform", "DER", "-out", forms["ec.sec1.der"])
    made("pkcs8", "-topk8", "-nocrypt", "-in", key, "-outform", "DER", "-out", forms["ec.pkcs8.der"])
    made("rsa", "-traditional", "-in", rsa, "-out", forms["rsa.pkcs1.pem"])
    made("rsa", "-traditional", "-in", rsa, "-outform", "DER", "-out", forms["rsa.pkcs1.der"])
    mistold = tmp_path / "mistold.pem"
    mistold.write_text(rsa.read_text().replace("PRIVATE KEY", "RSA PRIVATE KEY"))
    pairs = [(certificate if name.startswith("ec") else signed, path) for name, path in forms.items()]
    for chain, path in [(certificate, key), *pairs, (signed, rsa), (signed, mistold)]:
        server = fresh(*options(authority, chain, path), "-l", "notls:127.0.0.1:0,127.0.0.1:0")
        with Secure(ports(server, "TLS")[0], context(authority)) as client:
            assert client.ask(b"mn\r\n") == b"MN\r\n", path
        server.stop()


def test_who_need_not_show_a_certificate_is_not_asked_where_nobody_says_which_are_good(authority, fresh):
    certificate, key = authority.issue("lenient")
    server = fresh("-Z", "-o", f"ssl_chain_cert={certificate},ssl_key={key},ssl_verify_mode=1",
                   "-l", "notls:127.0.0.1:0,127.0.0.1:0")
    for own in (None, authority.issue("anybody")):
        with Secure(ports(server, "TLS")[0], context(authority, own)) as client:
            assert client.ask(b"mn\r\n") == b"MN\r\n"


def test_who_says_goodbye_gets_what_it_asked_for(authority, fresh):
    certificate, key = authority.issue("server")
    server = fresh(*options(authority, certificate, key), "-I", "8m", "-l", "notls:127.0.0.1:0,127.0.0.1:0", memory="256")
    port, value = ports(server, "TLS")[0], bytes(i % 251 for i in range(6_000_000))
    with Told(port, context(authority)) as client:
        client.until_done(client.tls.do_handshake)
        client.send()
        client.tls.write(b"set k 0 0 %d\r\n" % len(value))
        for at in range(0, len(value), 1 << 14):
            client.tls.write(value[at : at + (1 << 14)])
            client.send()
        client.tls.write(b"\r\n")
        assert client.until_done(lambda: client.tls.read(100)) == b"STORED\r\n"
        client.tls.write(b"get k\r\n")
        client.say_goodbye()
        client.send()
        wanted = b"VALUE k 0 %d\r\n%b\r\nEND\r\n" % (len(value), value)
        got = bytearray()
        while len(got) < len(wanted):
            got += client.until_done(lambda: client.tls.read(1 << 18)) or pytest.fail(f"ended after {len(got)} bytes")
        assert got == wanted


def test_a_goodbye_right_behind_the_handshake_is_heard(authority, alone):
    with Told(ports(alone, "TLS")[0], context(authority)) as client:
        client.shake_hands()
        client.tls.write(b"get a\r\n")
        client.say_goodbye()
        client.send()
        assert client.until_done(lambda: client.tls.read(100)) == b"END\r\n"
        assert client.hears_the_end()


def test_who_ends_while_others_shake_hands_has_said_what_it_said(authority, alone):
    clients = [Told(ports(alone, "TLS")[0], context(authority)) for _ in range(20)]
    for client in clients:
        client.shake_hands()
    with stopped(alone):
        for n, client in enumerate(clients):
            client.tls.write(b"set k%d 0 0 1 noreply\r\nv\r\n" % n)
            client.send()
            client.sock.close()
    with alone.wire() as plain:
        wait_until(lambda: plain.stats()["curr_connections"] == "1")
        assert [n for n in range(len(clients)) if plain.value(b"k%d" % n) != b"v"] == []
        assert plain.stats()["ssl_handshake_errors"] == "0"


def test_a_large_value_right_behind_the_handshake_waits_for_its_turn(authority, alone):
    clients = [Told(ports(alone, "TLS")[0], context(authority)) for _ in range(20)]
    for client in clients:
        client.shake_hands()
    unsent = []
    with stopped(alone):
        for n, client in enumerate(clients):
            client.tls.write(b"set k%d 0 0 200000\r\n%b\r\n" % (n, b"v" * 200_000))
            data = client.outgoing.read()
            unsent.append(data[client.sock.send(data) :])
    for client, data in zip(clients, unsent):
        client.sock.sendall(data)
    for client in clients:
        with client:
            assert client.until_done(lambda: client.tls.read(100)) == b"STORED\r\n"
    with alone.wire() as plain:
        assert plain.stats()["ssl_handshake_errors"] == "0"


#: More than one worker opens at once.
MANY = 300


def storm(port, made):
    """How many clients are served who have all come before the first one answers."""
    clients, served = [Told(port, made) for _ in range(MANY)], 0
    for client in clients:
        with pytest.raises(ssl.SSLWantReadError):
            client.tls.do_handshake()
        client.send()
    for client in clients:
        with client, contextlib.suppress(ConnectionError, AssertionError):
            client.until_done(client.tls.do_handshake)
            client.tls.write(b"mn\r\n")
            client.send()
            served += client.until_done(lambda: client.tls.read(100)) == b"MN\r\n"
    return served


def test_more_clients_than_are_opened_at_once_are_all_served(authority, alone):
    port, made = ports(alone, "TLS")[0], context(authority)
    # On a machine that is too busy some may not answer within the second that they have.
    assert MANY in (storm(port, made) for _ in range(5))


def test_who_waits_to_be_opened_does_not_wait_for_who_is_silent(authority, alone):
    port = ports(alone, "TLS")[0]
    with silent(port, MANY):
        is_served(port, authority)
    alone.check_alive()


def test_default_s_limit_shuts_no_certificate_out(authority, secure):
    feeds = authority.issue("someone", "DNS:feeds.example")
    connections = lambda name: ask(secure, "GET", f"/tenants/{name}")[1]["connections"]
    with secure.wire() as one, secure.wire() as two:
        assert one.ask(b"mn\r\n") == two.ask(b"mn\r\n") == b"MN\r\n"
        assert ask(secure, "PUT", "/tenants/default", {"max_connections": 2})[0] == 200
        with secure.wire() as third:
            assert third.read_to_close() == TOO_MANY
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
            with Secure(ports(secure, "TLS")[0], context(authority)) as fourth:
                fourth.ask(b"version\r\n")
        with Secure(ports(secure, "mutual TLS")[0], context(authority, feeds)) as own:
            assert own.ask(b"version\r\n") == b"VERSION 1.6.45\r\n"
            assert (connections("default"), connections("feeds")) == (2, 1)
    wait_until(lambda: (connections("default"), connections("feeds")) == (0, 0))


def test_a_tenant_reads_no_keys_again(authority, secure):
    feeds = authority.issue("someone", "DNS:feeds.example")
    with Secure(ports(secure, "mutual TLS")[0], context(authority, feeds)) as own:
        assert own.ask(b"refresh_certs\r\n") == b"CLIENT_ERROR not on a tenant's own listener\r\n"
