"""A network with faults: a TCP proxy that delays, drips, stalls, cuts and resets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType

from calve.testing.listener import CLOSE_WITHIN, HOST
from calve.testing.wire import reset_on_close

_PIECE = 64 * 1024


@dataclass(frozen=True)
class _Weather:
    """How the network is at the moment."""

    latency: float = 0.0
    drip: int = 0
    tick: float = 0.0
    limit: int | None = None
    reset: bool = False
    stalled: bool = False


class _Link:
    """One connection of a client, and its counterpart to the server."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writers = [writer]
        self.passed = 0

    def end(self, reset: bool) -> None:
        """Close both sides: with RST, or as if all had been said."""
        for writer in self.writers:
            if reset:
                with suppress(OSError):
                    reset_on_close(writer.get_extra_info("socket"))
                writer.transport.abort()
            else:
                writer.close()


class FaultyNetwork:
    """A TCP proxy in front of a server; it passes everything on until it is told otherwise.

    What it is told holds for the connections that there are and for new ones, until `heal`.
    """

    host = HOST

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._weather = _Weather()
        self._links: set[_Link] = set()
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self._thread.start()
        self._started.wait(CLOSE_WITHIN)

    def delay(self, seconds: float) -> None:
        """Let every piece wait before it is passed on, in both directions."""
        self._change(lambda: replace(self._weather, latency=seconds))

    def drip(self, size: int, tick: float) -> None:
        """Pass on `size` bytes at a time, with `tick` seconds between."""
        self._change(lambda: replace(self._weather, drip=size, tick=tick))

    def stall(self) -> None:
        """Pass nothing on, and keep the connections open."""
        self._change(lambda: replace(self._weather, stalled=True))

    def cut(self, after: int = 0) -> None:
        """Close each connection once `after` more bytes have passed; with 0 at once, new ones too."""
        self._change(lambda: replace(self._weather, limit=after, reset=False))

    def reset(self, after: int = 0) -> None:
        """Reset each connection (RST) once `after` more bytes have passed; with 0 at once, new ones too."""
        self._change(lambda: replace(self._weather, limit=after, reset=True))

    def heal(self) -> None:
        """Pass everything on again; connections that were ended stay so."""
        self._change(_Weather)

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._links)

    def close(self) -> None:
        """End every connection and stop serving."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join(CLOSE_WITHIN)

    def __enter__(self) -> FaultyNetwork:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _main(self) -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = int(server.sockets[0].getsockname()[1])
        self._started.set()
        await self._closing.wait()
        server.close()
        for link in tuple(self._links):
            link.end(reset=True)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _change(self, weather: Callable[[], _Weather]) -> None:
        done = threading.Event()

        def change() -> None:
            self._weather = weather()
            self._changed.set()
            self._changed = asyncio.Event()
            for link in tuple(self._links):
                link.passed = 0
                self._end_if_due(link)
            done.set()

        self._loop.call_soon_threadsafe(change)
        done.wait(CLOSE_WITHIN)

    def _end_if_due(self, link: _Link) -> bool:
        due = self._weather.limit is not None and link.passed >= self._weather.limit
        if due:
            link.end(self._weather.reset)
        return due

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        link = _Link(writer)
        self._links.add(link)
        try:
            await self._connect(link, reader, writer)
        except (OSError, asyncio.CancelledError):
            link.end(reset=True)
        finally:
            link.end(reset=False)
            self._links.discard(link)
            self._tasks.discard(task)

    async def _connect(self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._end_if_due(link):
            return
        answers, requests = await asyncio.open_connection(*self._target)
        link.writers.append(requests)
        await asyncio.gather(self._pump(link, reader, requests), self._pump(link, answers, writer))

    async def _pump(self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_PIECE):
            await self._pass(link, data, writer)
        if not writer.transport.is_closing():
            writer.write_eof()

    async def _pass(self, link: _Link, data: bytes, writer: asyncio.StreamWriter) -> None:
        await self._pause(self._weather.latency)
        while data:
            while self._weather.stalled:
                await self._changed.wait()
            piece = data[: self._room(link, len(data))]
            data = data[len(piece) :]
            link.passed += len(piece)
            writer.write(piece)
            await writer.drain()
            if self._end_if_due(link):
                return
            if data:
                await self._pause(self._weather.tick)

    def _room(self, link: _Link, size: int) -> int:
        drip = self._weather.drip or size
        return drip if self._weather.limit is None else min(drip, self._weather.limit - link.passed)

    async def _pause(self, seconds: float) -> None:
        """Wait, but not on when the weather changes."""
        if seconds > 0:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait(), seconds)
