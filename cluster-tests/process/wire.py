"""Just enough of the protocol for clients that misbehave or only look: frames, hello, metadata, produce."""
import socket

HELLO, METADATA, PRODUCE = 1000, 3, 0


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value):
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def text(field, value):
    return varint(field << 3 | 2) + varint(len(value)) + value


def number(field, value):
    return varint(field << 3) + zigzag(value)


def frame(api, correlation, body_field, body, records=b""):
    message = number(1, api) + varint(2 << 3) + varint(1) + varint(3 << 3) + varint(correlation) + text(body_field, body)
    return (len(message) + 4 + len(records)).to_bytes(4, "big") + len(message).to_bytes(4, "big") + message + records


HELLO_FRAME = frame(HELLO, 1, 105, text(1, b"test"))


def metadata_frame(correlation):
    return frame(METADATA, correlation, 103, varint(1 << 3) + b"\1")


def address_of(where):
    host, port = where.rsplit(":", 1)
    return host.strip("[]"), int(port)


def connect(where, source=None, wait=10):
    """A connection; `source` is the address that it comes from."""
    host, port = address_of(where)
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    sock.settimeout(wait)
    if source is not None:
        sock.bind((source, 0))
    sock.connect((host, port))
    return sock


def read_exactly(sock, count):
    got = b""
    while len(got) < count:
        part = sock.recv(count - len(got))
        if not part:
            raise ConnectionError("closed")
        got += part
    return got


def read_answer(sock):
    """A whole frame without its lengths."""
    return read_exactly(sock, int.from_bytes(read_exactly(sock, 4), "big"))[4:]
