"""Opens an address (http, https, s3 or file) and reads it from a given byte onwards.

The input is an address and how much of its file is here already. The output is a `Reply` to read
from. `Broken` says that the same request may succeed later, `Refused` that this address cannot give
the file. Credentials come from the environment, are sent only to the hosts that the source names,
and never appear in a message.
"""

import contextlib
import http.client
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from urllib3 import BaseHTTPResponse, PoolManager, ProxyManager, Retry
from urllib3.exceptions import HTTPError, InvalidHeader, LocationValueError
from urllib3.util import make_headers, parse_url

from dlperf.prepare.sources import Credentials, masked

#: Statuses of a server that is busy or restarting, or of a gateway in front of one: try again.
PASSING = {408, 425, 429, 500, 502, 503, 504}
MOST_REDIRECTS = 10
OPEN = 10  # connections to a host that stay open for its next files
LONGEST_WAIT = 600  # seconds: a server that asks for a longer wait is asked again after these
PORTS = {"http": 80, "https": 443}
LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class Broken(Exception):
    """A fault that may pass. `wait` is how many seconds the server asks to wait, if it says so."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class NoSuchPart(Broken):
    """The file ends before the byte that was asked for."""


class Refused(Exception):
    """This address cannot give the file, and trying again does not help."""


@dataclass
class Reply:
    """A body from byte `start` onwards; `total` is the size of the whole file, if it is known.

    `validator` is a strong ETag or a date: it changes when the file behind the address changes.
    """

    read: Callable[[int], bytes]
    close: Callable[[], Any]
    start: int
    total: int | None
    validator: str | None


@dataclass(frozen=True)
class Asked:
    """A request: an address from byte `start` onwards, provided that its validator is the same.

    Without a validator only the checksum can show that the rest belongs to the first part.
    """

    address: str
    start: int = 0
    validator: str | None = None
    credentials: Credentials | None = None
    timeout: float = 60
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)


def open_address(asked: Asked) -> Reply:
    """Open what is asked for. Raises Broken or Refused."""
    scheme, _, name = asked.address.partition(":")
    address = asked.address
    if scheme == "env":
        address = asked.environ.get(name, "")
        if not address:
            raise Refused(f"the environment variable {name} is not set")
        scheme = address.partition(":")[0]
    if scheme == "file":
        return _open_file(address, asked)
    if scheme == "s3":
        return _open_s3(address, asked)
    if scheme in PORTS:
        return _open_http(address, asked)
    raise Refused("does not start with http://, https://, s3:// or file:///")


def _open_file(address: str, asked: Asked) -> Reply:
    path = Path(unquote(urlsplit(address).path))
    try:
        stream = open(path, "rb", buffering=0)
    except OSError as error:
        raise Refused(f"cannot be read ({error.strerror})") from None
    state = os.fstat(stream.fileno())
    validator = f"{state.st_mtime_ns}-{state.st_size}"
    start = asked.start if asked.validator in (None, validator) else 0
    stream.seek(start)
    return Reply(
        _read_from(stream.read, asked.timeout), stream.close, start, state.st_size, validator
    )


def _open_http(address: str, asked: Asked) -> Reply:
    # urllib3 could follow redirects too, but each address needs its own credentials and proxy.
    for _ in range(MOST_REDIRECTS):
        headers = _range(asked) | _authorization(address, asked)
        response = _request(address, headers, asked)
        location = response.get_redirect_location()
        if location is False:
            return _reply(response, asked)
        response.close()
        address = _redirected(address, location or "")
    raise Refused(f"redirects more than {MOST_REDIRECTS} times")


def _open_s3(address: str, asked: Asked) -> Reply:
    """By path-style requests, which every S3-like store understands; signed if keys are set."""
    environ, parts = asked.environ, urlsplit(address)
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
    if not (endpoint or f"https://s3.{region}.amazonaws.com").startswith(("http://", "https://")):
        raise Refused("AWS_ENDPOINT_URL is not an http(s) address")
    endpoint = (endpoint or f"https://s3.{region}.amazonaws.com").rstrip("/")
    address = f"{endpoint}/{parts.netloc}/{quote(parts.path.lstrip('/'), safe='/~')}"
    response = _request(address, _signed(address, region, _range(asked), environ), asked)
    if response.get_redirect_location() is not False:
        response.close()
        other = response.headers.get("x-amz-bucket-region") or "another one"
        raise Refused(f"the bucket is not in region {region} but in {other}; set AWS_REGION")
    return _reply(response, asked)


def _signed(
    address: str, region: str, headers: dict[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    key, secret = environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY")
    if not (key and secret):
        return headers  # a public bucket
    try:
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials as Keys
    except ImportError:
        raise Refused("needs the package botocore, which envs/workflow.yaml names") from None

    request = AWSRequest("GET", address, headers=headers)
    S3SigV4Auth(Keys(key, secret, environ.get("AWS_SESSION_TOKEN")), "s3", region).add_auth(request)
    return dict(request.headers.items())


def _request(address: str, headers: dict[str, str], asked: Asked) -> BaseHTTPResponse:
    """The response, whatever its status is, with its body still to be read."""
    try:
        return _pool(_proxy(address)).request(
            "GET",
            address,
            headers={"User-Agent": "dlperf", "Accept-Encoding": "identity", **headers},
            timeout=asked.timeout,
            retries=False,  # a retry resumes the file, which `fetch` does
            redirect=False,
            preload_content=False,
            decode_content=False,
            enforce_content_length=False,
        )
    except (HTTPError, ValueError) as error:
        raise _failure(error, asked.timeout) from None


@cache
def _pool(proxy: str) -> PoolManager:
    """Connections that stay open for the next request: direct ones ("") or those of a proxy."""
    trusted = ssl.create_default_context()  # the system's certificates, or those of SSL_CERT_FILE
    if not proxy:
        return PoolManager(maxsize=OPEN, ssl_context=trusted)
    user = parse_url(proxy).auth
    headers = make_headers(proxy_basic_auth=unquote(user)) if user else None
    return ProxyManager(proxy, proxy_headers=headers, maxsize=OPEN, ssl_context=trusted)


def _proxy(address: str) -> str:
    """The proxy that the environment names for an address; "" if there is none."""
    url = _url(address)
    proxy = getproxies().get(url.scheme, "")
    if not proxy or proxy_bypass(url.netloc):
        return ""
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if not proxy.startswith(("http://", "https://")):
        raise Refused(f"the environment variable {url.scheme}_proxy is not an http(s) address")
    return proxy


def _url(address: str) -> Any:
    """The parts of an http(s) address."""
    with contextlib.suppress(LocationValueError):
        url = parse_url(address)
        if url.scheme in PORTS and url.host:
            return url
    raise Refused("is not a valid address")


def _reply(response: BaseHTTPResponse, asked: Asked) -> Reply:
    status, headers = response.status, response.headers
    if status not in (200, 206):
        response.close()
        raise _unwanted(status, headers, asked)
    length = headers.get("Content-Length", "")
    start, total = 0, int(length) if length.isdigit() else None
    if status == 206:
        start, total = _content_range(headers.get("Content-Range", ""))
        if start != asked.start:
            response.close()
            raise Refused(f"answers a request from byte {asked.start} with another part")
    return Reply(
        _read_from(response.read1, asked.timeout), response.close, start, total, _validator(headers)
    )


def _read_from(read: Callable[[int], bytes], timeout: float) -> Callable[[int], bytes]:
    def reading(most: int) -> bytes:
        try:
            return read(most)
        except (HTTPError, OSError, ValueError) as error:
            raise _failure(error, timeout) from None

    return reading


def _range(asked: Asked) -> dict[str, str]:
    if not asked.start:
        return {}
    found = {"Range": f"bytes={asked.start}-"}
    return {**found, "If-Range": asked.validator} if asked.validator else found


def _content_range(value: str) -> tuple[int, int | None]:
    """'bytes 100-199/200' -> (100, 200)."""
    unit, _, rest = value.partition(" ")
    span, _, total = rest.partition("/")
    first = span.partition("-")[0]
    if unit != "bytes" or not first.isdigit():
        return -1, None
    return int(first), int(total) if total.isdigit() else None


def _validator(headers: Any) -> str | None:
    """What If-Range can hold: a strong ETag, or else the date of the last change."""
    tag = headers.get("ETag", "")
    return tag if tag.startswith('"') else headers.get("Last-Modified")


def _authorization(address: str, asked: Asked) -> dict[str, str]:
    """The header with the credentials, if they are meant for this host."""
    wanted = asked.credentials
    if wanted is None or not _meant_for(address, wanted.hosts):
        return {}
    values = [asked.environ.get(name, "") for name in wanted.variables]
    for name, value in zip(wanted.variables, values, strict=True):
        if not (value.isascii() and (value.isprintable() or not value)):
            raise Refused(
                f"the environment variable {name} holds characters that a header cannot have"
            )
    if not all(values):
        return {}  # if the server needs them, its answer says so
    if wanted.header:
        return {wanted.header: values[0]}
    return {"Authorization": make_headers(basic_auth=":".join(values))["authorization"]}


def _meant_for(address: str, hosts: list[str]) -> bool:
    url = _url(address)
    host, port = url.host.strip("[]"), url.port or PORTS[url.scheme]
    if url.scheme != "https" and host not in LOOPBACK:
        return False
    names = {f"{host}:{port}"} | ({host} if port == PORTS[url.scheme] else set())
    return not names.isdisjoint(name.lower() for name in hosts)


def _redirected(address: str, location: str) -> str:
    try:
        target = _url(urljoin(address, location) if location else "")
    except (Refused, ValueError):
        raise Refused("redirects to something that is not an http(s) address") from None
    if target.scheme == "http" and address.lower().startswith("https:"):
        raise Refused(f"redirects from https to http ({masked(target.url)}), which is not followed")
    return str(target.url)


def _unwanted(status: int, headers: Any, asked: Asked) -> Broken | Refused:
    said = f"{status} {http.client.responses.get(status, '')}".strip()
    if status == 416:
        return NoSuchPart(f"has no byte {asked.start} ({said})")
    if status in PASSING:
        return Broken(f"answers {said}", _retry_after(headers.get("Retry-After", "")))
    if status in (401, 403):
        return Refused(f"answers {said}{_about_credentials(asked)}")
    return Refused(f"answers {said}")


def _about_credentials(asked: Asked) -> str:
    names = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
    if not asked.address.startswith("s3:"):
        names = asked.credentials.variables if asked.credentials else []
    unset = [name for name in names if not asked.environ.get(name)]
    if unset:
        return f"; not set: {', '.join(unset)}"
    return f"; {' and '.join(names)} may be wrong" if names else ""


def _retry_after(value: str) -> float | None:
    """The seconds of a Retry-After, which is a number or a date."""
    with contextlib.suppress(InvalidHeader, ValueError, OverflowError):
        return Retry(retry_after_max=LONGEST_WAIT).parse_retry_after(value)
    return None


def _failure(error: Exception, timeout: float) -> Broken | Refused:
    """What went wrong, in words that cannot hold an address."""
    reason = _innermost(error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return Refused(f"its certificate is not trusted ({reason.verify_message})")
    if isinstance(reason, TimeoutError):
        return Broken(f"nothing came for {timeout:g} s")
    if isinstance(reason, OSError):
        return Broken((reason.strerror or str(reason) or type(reason).__name__).lower())
    if isinstance(reason, ValueError):
        return Refused("is not a valid address")
    return Broken(f"broke off ({type(reason).__name__})")


def _innermost(error: BaseException) -> BaseException:
    """The error of the standard library that an error of urllib3 wraps."""
    while isinstance(error, HTTPError):
        inside = [each for each in (error.__cause__, *error.args) if isinstance(each, Exception)]
        if not inside:
            break
        error = inside[0]
    return error
