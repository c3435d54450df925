#!/usr/bin/env python3
"""idle.py HOST:PORT PID N: opens N connections from several addresses and says nothing more, half of them not even hello.

Prints "open KIB", the growth of the process' resident memory, waits for a line on standard input; then prints "closed N" when the
node has closed every one of them. Two more are at work meanwhile: one that sends byte by byte, which must be served, and one that
asks and never reads."""
import resource
import select
import socket
import sys
import threading
import time

from wire import HELLO_FRAME, connect, metadata_frame, read_answer

NEVER_READS = 20000  # questions


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def byte_by_byte(where, failures):
    """Two questions, each byte on its own, and their answers."""
    try:
        sock = connect(where, wait=60)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for question in (HELLO_FRAME, metadata_frame(2)):
            for at in range(len(question)):
                sock.sendall(question[at : at + 1])
                time.sleep(0.02)
            read_answer(sock)
    except OSError as error:
        failures.append(f"the slow one was not served: {error}")


def ask_and_not_read(where):
    """As much as the node takes; it takes no more long before all of it."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    host, port = where.rsplit(":", 1)
    sock.connect((host, int(port)))
    sock.setblocking(False)
    left = memoryview(HELLO_FRAME + b"".join(metadata_frame(2 + i) for i in range(NEVER_READS)))
    until = time.monotonic() + 2
    while len(left) > 0 and time.monotonic() < until:
        try:
            left = left[sock.send(left) :]
        except BlockingIOError:
            select.select([], [sock], [], 0.05)
    return sock


def main():
    where, pid, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 100), max(hard, count + 100)))
    except (ValueError, OSError):
        print(f"needs {count + 100} descriptors, {hard} may be had")
        sys.exit(77)
    failures = []
    slow = threading.Thread(target=byte_by_byte, args=(where, failures))
    slow.start()
    before = resident_kib(pid)
    idle, poll = {}, select.epoll()
    for i in range(count):
        sock = connect(where, f"127.0.0.{2 + i % 8}")
        if i % 2 == 0:
            sock.sendall(HELLO_FRAME)
            read_answer(sock)
        idle[sock.fileno()] = sock
        poll.register(sock, select.EPOLLIN | select.EPOLLRDHUP)
    print("open", resident_kib(pid) - before, flush=True)
    deaf = ask_and_not_read(where)
    sys.stdin.readline()
    closed, until = 0, time.monotonic() + 60
    while idle and time.monotonic() < until:
        for fd, _ in poll.poll(1):
            poll.unregister(fd)
            sock = idle.pop(fd)
            try:
                if sock.recv(1):
                    failures.append("an idle one was told something")
            except ConnectionError:
                pass
            sock.close()
            closed += 1
    slow.join()
    deaf.close()
    for failure in failures:
        print(failure)
    if idle:
        print(len(idle), "are still open")
    if not failures and not idle:
        print("closed", closed)


main()
