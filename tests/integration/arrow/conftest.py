"""Clusters of both kinds for the tests of writing, which are the same for both."""

from tests.integration.client.conftest import kafka as kafka
