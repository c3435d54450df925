#!/usr/bin/env python3
"""Clients that take all the memory they can: flood.py HOST:PORT PID SECONDS

Large requests, whole and broken off in the middle, and readers that ask for much and take nothing, all at once and again
and again. Prints how many connections there were and the largest resident memory of the process in bytes."""
import random
import selectors
import socket
import sys
import time

from wire import HELLO_FRAME, PRODUCE, frame, metadata_frame, number, text, varint


class Flood:
    """A connection that sends what it has to, and reads the answers or does not."""

    def __init__(self, address, data, reads):
        self.sock = socket.socket()
        self.sock.setblocking(False)
        if not reads:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.sock.connect_ex(address)
        self.left = memoryview(data)
        self.reads = reads
        self.until = time.monotonic() + random.uniform(0.3, 3)


def produce(size):
    partition = text(1, bytes(15) + b"\1") + number(2, 0) + varint(3 << 3) + varint(size)
    return frame(PRODUCE, 2, 100, number(1, -1) + number(2, 1000) + text(3, partition), bytes(size))


def draw(address):
    kind = random.randrange(4)
    if kind == 0:  # whole and large
        size = random.choice([100_000, 1_000_000, 8_000_000, 30_000_000])
        return Flood(address, HELLO_FRAME + produce(size) * random.choice([1, 3]), True)
    if kind == 1:  # broken off in the middle
        size = random.choice([8_000_000, 50_000_000])
        return Flood(address, HELLO_FRAME + produce(size)[: random.randrange(size)], True)
    if kind == 2:  # many at a time, from one who takes nothing
        asks = b"".join(metadata_frame(2 + i) for i in range(200))
        return Flood(address, HELLO_FRAME + asks, False)
    return Flood(address, HELLO_FRAME + produce(200_000) * 100, False)


def resident(pid, key):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(key):
                return int(line.split()[1]) * 1024
    return -1


def turn(selector, key, mask, now):
    """False: the connection is done."""
    flood = key.data
    if now > flood.until:
        return False
    if mask & selectors.EVENT_READ and not flood.sock.recv(1 << 20):
        return False
    if mask & selectors.EVENT_WRITE and len(flood.left) > 0:
        flood.left = flood.left[flood.sock.send(flood.left[: 1 << 20]) :]
        if len(flood.left) == 0 and flood.reads:
            selector.modify(flood.sock, selectors.EVENT_READ, flood)
    return True


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    pid, seconds = int(sys.argv[2]), float(sys.argv[3])
    selector = selectors.DefaultSelector()
    random.seed(7)
    end, opened = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        while len(selector.get_map()) < 60:
            flood = draw((host, int(port)))
            opened += 1
            events = selectors.EVENT_WRITE | (selectors.EVENT_READ if flood.reads else 0)
            selector.register(flood.sock, events, flood)
        now = time.monotonic()
        for key, mask in selector.select(0.02):
            try:
                goes_on = turn(selector, key, mask, now)
            except BlockingIOError:
                goes_on = True
            except OSError:
                goes_on = False
            if not goes_on:
                selector.unregister(key.fileobj)
                key.fileobj.close()
        for key in list(selector.get_map().values()):
            if now > key.data.until:
                selector.unregister(key.fileobj)
                key.fileobj.close()
    print(opened, resident(pid, "VmHWM"))


main()
