#!/usr/bin/env python3
"""listeners.py told HOST:PORT             prints the address that the node tells who asks there
listeners.py crowd HOST:PORT SOURCE N   opens N connections from an address, prints how many of them are served
listeners.py hold HOST:PORT SOURCE N    the same, and keeps them until its standard input ends"""
import sys

from wire import HELLO_FRAME, connect, metadata_frame, read_answer


def varint_at(data, at):
    value, shift = 0, 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
        shift += 7


def fields(data):
    at = 0
    while at < len(data):
        tag, at = varint_at(data, at)
        value, after = varint_at(data, at)
        if tag & 7 == 2:
            value, after = data[after : after + value], after + value
        yield tag >> 3, value
        at = after


def field(data, number):
    return next(value for key, value in fields(data) if key == number)


def told(where):
    sock = connect(where)
    sock.sendall(HELLO_FRAME + metadata_frame(2))
    read_answer(sock)
    node = field(field(read_answer(sock), 103), 4)
    port = field(node, 3)
    print(f"{field(node, 2).decode()}:{(port >> 1) ^ -(port & 1)}")


def crowd(where, source, count):
    """Those that are served; the others are closed at once."""
    taken = []
    for _ in range(count):
        try:
            sock = connect(where, source)
            sock.sendall(HELLO_FRAME)
            read_answer(sock)
            taken.append(sock)
        except ConnectionError:
            pass
    print(len(taken), flush=True)
    return taken


if sys.argv[1] == "told":
    told(sys.argv[2])
else:
    kept = crowd(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    if sys.argv[1] == "hold":
        sys.stdin.read()
