"""What python-binary-memcached's own tests ask of a file that its package does not bring: where servers are, and passwords."""

import pytest

IPV6_PORT = 11311
SASL_PORT = 11312


@pytest.fixture
def memcached_ipv6():
    """A server listens at [::1]:IPV6_PORT."""


@pytest.fixture
def memcached_sasl():
    """Port, user and password of a server that asks for them."""
    return SASL_PORT, "user", "password"
