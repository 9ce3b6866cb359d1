"""Which URLs and addresses a model may be asked at."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.addresses import AddressError, check_address, parse_base_url


@pytest.mark.parametrize(
    ("text", "host", "port", "local"),
    [
        ("https://api.openai.com/v1", "api.openai.com", 443, False),
        ("http://localhost:11434/v1", "localhost", 11434, True),
        ("http://127.0.0.1:8080", "127.0.0.1", 8080, True),
        ("http://[::1]:8080/v1", "::1", 8080, True),
        ("http://192.168.1.7/v1", "192.168.1.7", 80, True),
        ("http://gpu.lan:8000/v1", "gpu.lan", 8000, False),  # its address is looked at when it is connected to
        ("https://Example.ORG./v1", "example.org", 443, False),
        ("http://100.101.102.103:1234/v1", "100.101.102.103", 1234, True),
    ],
)
def test_what_may_be_asked(text, host, port, local):
    url = parse_base_url(text)
    assert (url.host, url.port, url.is_local) == (host, port, local)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost:11434",
        "file:///etc/passwd",
        "ftp://example.org/",
        "gopher://127.0.0.1/",
        "unix:///run/x.sock",
        "https://",
        "https:///v1",
        "https://example.org:99999/",
        "https://[::1/",
        "https://user:key@example.org/v1",
        "https://@example.org/v1",
        "https://example.org/v1?key=x",
        "https://example.org/v1#x",
        "https://exa mple.org/",
        "https://example.org/\r\nX: y",
        "http://169.254.169.254/latest/",
        "https://169.254.1.1/",
        "http://[fe80::1]/",
        "http://[fe80::1%25eth0]/",
        "http://[::ffff:169.254.169.254]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[2002:a9fe:a9fe::1]/",
        "https://[fd00:ec2::254]/",
        "http://100.100.100.200/",
        "http://metadata.google.internal/",
        "http://METADATA.google.internal./",
        "http://0.0.0.0:8080/",
        "http://[::]:8080/",
        "http://224.0.0.1/",
        "http://8.8.8.8/v1",
        "http://2852039166/",
        "http://0xa9fea9fe/",
        "http://0251.0376.0251.0376/",
        "http://127.1/",
        "http://[2606:4700::1111]/v1",
    ],
)
def test_what_may_not(text):
    with pytest.raises(AddressError):
        parse_base_url(text)


@given(
    st.integers(0, 2**16 - 1).map(lambda n: IPv4Address((169 << 24) + (254 << 16) + n)),
    st.sampled_from(["http", "https"]),
)
def test_no_link_local_address_in_any_dress(address, scheme):
    dresses = [address, IPv6Address(f"::ffff:{address}"), IPv6Address((0x64FF9B << 96) + int(address))]
    for dress in dresses:
        with pytest.raises(AddressError):
            check_address(dress, scheme=scheme)


@given(st.ip_addresses())
def test_plain_http_reaches_private_addresses_only(address):
    try:
        check_address(address, scheme="http")
    except AddressError:
        return
    mapped = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None) or address
    if isinstance(address, IPv6Address) and address in ip_network("64:ff9b::/96"):
        mapped = IPv4Address(int(address) & 0xFFFFFFFF)
    assert mapped.is_private or mapped in ip_network("100.64.0.0/10")


@given(st.text(max_size=60))
def test_any_text_is_a_url_or_refused(text):
    for written in (text, f"http://{text}", f"https://{text}/v1"):
        try:
            url = parse_base_url(written)
        except AddressError:
            continue
        assert url.scheme in {"http", "https"}
        assert url.host
        assert 0 < url.port < 65536


def test_https_may_reach_any_single_host():
    for text in ("8.8.8.8", "127.0.0.1", "10.0.0.1", "2606:4700::1111"):
        check_address(ip_address(text), scheme="https")
