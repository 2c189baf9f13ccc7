"""Enough of the clients that people run have passed, in this run: it comes after all others and asks what they found."""

import pytest

#: A client, or clients one of which is enough.
ASKED_FOR = [
    ["pymemcache"], ["pylibmc"], ["python-binary-memcached"], ["gomemcache"], ["spymemcached"], ["memjs"],
    ["php-memcached", "dalli"],
]
FEWEST = 6


@pytest.mark.last
def test_enough_clients(clients_passed, note):
    """Whoever chooses tests by name chooses those of the clients, too: `-k "client or suite"`."""
    enough = [group for group in ASKED_FOR if clients_passed.intersection(group)]
    note(f"clients that passed: {len(clients_passed)}, {len(enough)} of the {len(ASKED_FOR)} asked for: "
         f"{' '.join(sorted(clients_passed))}")
    assert FEWEST <= len(enough), f"{sorted(clients_passed)}: fewer than {FEWEST} of {ASKED_FOR}"
