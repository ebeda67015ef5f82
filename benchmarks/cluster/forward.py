"""``python forward.py HOST PORT SECONDS`` forwards a connection, each byte SECONDS later."""

import queue
import socket
import sys
import threading
import time

IDLE = 60.0  # seconds without a connection after which this process ends


def forward(source: socket.socket, target: socket.socket, delay: float) -> None:
    """Send what comes from one socket to another, each part ``delay`` seconds later."""
    parts: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

    def send() -> None:
        while True:
            due, content = parts.get()
            time.sleep(max(0.0, due - time.perf_counter()))
            if not content:
                target.shutdown(socket.SHUT_WR)
                return
            target.sendall(content)

    thread = threading.Thread(target=send)
    thread.start()
    content = b"?"
    while content:
        content = source.recv(1 << 20)
        parts.put((time.perf_counter() + delay, content))
    thread.join()


def main(host: str, port: str, delay: str) -> None:
    with socket.create_server((host, 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        listener.settimeout(IDLE)
        try:
            one, _ = listener.accept()
        except TimeoutError:  # the first worker connects to none
            return
    other = socket.create_connection((host, int(port)))
    for end in (one, other):
        end.settimeout(None)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    back = threading.Thread(target=forward, args=(other, one, float(delay)))
    back.start()
    forward(one, other, float(delay))
    back.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
