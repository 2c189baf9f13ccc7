"""Fixtures: `server` (under test), `peer` (Debian's memcached), `fresh` (starts servers for one test)."""

import collections

import pytest

from conformance import differences, servers

NO_MEMCACHED = "Debian's memcached is not installed (apt-get install memcached)"
#: memcached pads a shorter number in place only if nobody else holds the item; its LRU threads may, by chance.
QUIET_BACKGROUND = ("-o", "no_lru_maintainer,no_lru_crawler")
PEER_ONLY = "stands for memcached only: COTENANT_TEST_PEER_ONLY=1"


def pytest_configure(config):
    config.addinivalue_line("markers", "cotenant: checks what memcached does not have")
    config.addinivalue_line("markers", "last: looks at what other tests have found")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)
    if servers.PEER_ONLY:
        for item in items:
            if item.get_closest_marker("cotenant"):
                item.add_marker(pytest.mark.skip(reason=PEER_ONLY))


def pytest_report_header():
    if servers.PEER_ONLY:
        return f"server under test: {servers.find_memcached()} (COTENANT_TEST_PEER_ONLY=1)"
    return f"server under test: {servers.BINARY}"


def pytest_terminal_summary(terminalreporter):
    """Counts skips by reason: a test that did not run must not look like one that passed."""
    reasons = collections.Counter()
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[reason.removeprefix("Skipped: ")] += 1
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"skipped: {count} conformance tests: {reason}")
    for line in getattr(terminalreporter.config, "notes", []):
        terminalreporter.write_line(line)
    for line in differences.summary(getattr(terminalreporter.config, "compared", {})):
        terminalreporter.write_line(line)


@pytest.fixture
def note(request):
    """Adds a line to the end of the report."""
    config = request.config
    if not hasattr(config, "notes"):
        config.notes = []
    return config.notes.append


@pytest.fixture
def clients_passed(request):
    """Names of clients whose checks have passed in this run."""
    config = request.config
    if not hasattr(config, "clients_passed"):
        config.clients_passed = set()
    return config.clients_passed


@pytest.fixture
def passed(note, clients_passed):
    """The last words of a client's test: `passed("memjs", "30 checks passed")`. The end of the report has them."""

    def say(client, what):
        clients_passed.add(client)
        note(f"{client} {what}")

    return say


@pytest.fixture
def compared(request):
    """Counts cases whose answers were memcached's: `compared("classic", "get", 1000)`. The end of the report has them."""
    config = request.config
    if not hasattr(config, "compared"):
        config.compared = {}

    def count(protocol, what, cases):
        assert differences.CASES <= cases, f"{cases} cases of {what}"
        config.compared.setdefault(protocol, {})[what] = cases

    return count


@pytest.fixture(scope="session")
def server():
    """The server under test, shared by tests that leave it as they found it."""
    running = servers.start(QUIET_BACKGROUND if servers.PEER_ONLY else ())
    yield running
    assert running.is_alive(), f"the shared server died\n{running.said()}"
    running.stop()


@pytest.fixture(scope="session")
def peer():
    """Debian's memcached."""
    if servers.find_memcached() is None:
        pytest.skip(NO_MEMCACHED)
    running = servers.start_memcached(QUIET_BACKGROUND)
    yield running
    running.stop()


@pytest.fixture
def fresh():
    """Starts servers with arguments; they end with the test."""
    running = []

    def start(*arguments, memory="64"):
        running.append(servers.start(arguments, memory))
        return running[-1]

    yield start
    for one in running:
        one.stop()


@pytest.fixture
def peer_fresh():
    """Starts Debian's memcached with arguments, for one test."""
    if servers.find_memcached() is None:
        pytest.skip(NO_MEMCACHED)
    running = []

    def start(*arguments):
        running.append(servers.start_memcached(arguments))
        return running[-1]

    yield start
    for one in running:
        one.stop()


@pytest.fixture
def configured(tmp_path):
    """Starts a server with a configuration file; it ends with the test."""
    running = []

    def start(text):
        path = tmp_path / "cotenant.toml"
        path.write_text(text, encoding="ascii")
        running.append(servers.start_cotenant(["--config", str(path)], memory=None))
        return running[-1]

    yield start
    for one in running:
        one.stop()


@pytest.fixture
def wire(server):
    """A connection to the shared server, which is empty when the test begins."""
    with server.wire() as connection:
        assert connection.ask(b"flush_all\r\n") == b"OK\r\n"
        yield connection
