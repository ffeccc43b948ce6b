"""A process in which probes run (probes/forkserver.py), as the doctor speaks with it."""

import asyncio
import json
import os
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from dl_doctor.guard import field, wait_channel
from dl_doctor.guards import Begun
from dl_doctor.probes.shortening import ending

TAIL_BYTES = 16 << 10
"""Kept of what probes print: the end."""

LARGEST_MESSAGE_BYTES = 16 << 20


class Conversation:
    """What one process has said so far."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.started: asyncio.Future[None] = loop.create_future()
        """It runs, or never will."""

        self.ended: asyncio.Future[dict[str, Any]] = loop.create_future()
        """How; empty where nobody told."""

        self.said: dict[str, Any] = {}
        self._unread = bytearray()

    def hear(self, piece: bytes) -> None:
        """Take a piece of its lines of JSON."""
        self._unread += piece
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            self.said |= msgspec.json.decode(line, type=dict[str, Any])
        if len(self._unread) > LARGEST_MESSAGE_BYTES:
            raise msgspec.DecodeError("it does not end")
        if self.said and not self.started.done():
            self.started.set_result(None)
        if "ended" in self.said:
            self.end(self.said["ended"])

    def end(self, last: dict[str, Any]) -> None:
        if not self.started.done():
            self.started.set_result(None)
        if not self.ended.done():
            self.ended.set_result(last)

    @property
    def pid(self) -> int | None:
        return self.said.get("started")

    def look(self, pid: int | None) -> None:
        """Take down what it is doing, in a process of this number: its state, and the kernel's function that it waits in."""
        if pid:
            self.said |= {"pid": pid, "state": field(pid, 0), "wait_channel": wait_channel(pid)}


class ForkServer:
    """A process in which probes run, and its guard, through the pipes to both."""

    PIECE = struct.Struct(">IH")
    """What stands before each piece of a message: whose it is, and its length."""

    def __init__(self, begun: Begun) -> None:
        self._loop = asyncio.get_running_loop()
        self._begun = begun
        self.own = Conversation()
        """The guard's and the interpreter's; 0 in frames."""

        self._asked = {0: self.own}
        self._unsent = bytearray()
        self._heard = bytearray()
        self._tail = bytearray()
        self._loop.add_reader(begun.answers, self._take_frames)
        self._loop.add_reader(begun.output, self._take_output)

    @property
    def given_up(self) -> bool:
        """We have had the guard end it."""
        return self._begun.given_up

    def ask(self, path: str, arguments: dict[str, Any], place: str) -> Conversation:
        """Have a probe run, in its place (Probes.run)."""
        number = len(self._asked)
        self._asked[number] = Conversation()
        self._send({"number": number, "path": path, "arguments": arguments, "place": place})
        return self._asked[number]

    def import_early(self, modules: Sequence[str]) -> None:
        """Have modules of the standard library imported before processes are forked that would each import them."""
        self._send({"import": modules})

    def end(self, asked: Conversation) -> None:
        """Take down what a probe waits for and have it killed, or all, where it is all there is or has not even started."""
        asked.look(asked.pid or self.own.pid)
        if asked.pid in (None, self.own.pid):
            self._begun.give_up()
        else:
            self._begun.end(asked.pid)

    def printed(self) -> str:
        """The end of what all have printed."""
        self._take_output()
        text = self._tail.decode("utf-8", "backslashreplace")
        return ending(text, min(TAIL_BYTES, len(text) - (len(self._tail) > TAIL_BYTES)))

    def close(self) -> None:
        """Let go, and wait for nothing."""
        self._begun.give_up()
        self._take_output()
        for number in (self._begun.requests, self._begun.answers, self._begun.output):
            self._loop.remove_reader(number)
            self._loop.remove_writer(number)
        self._begun.close()

    def _send(self, request: dict[str, Any]) -> None:
        self._unsent += json.dumps(request).encode("ascii") + b"\n"
        self.own.started.add_done_callback(self._begin_to_write)

    def _begin_to_write(self, _: "asyncio.Future[None]") -> None:
        if not self.given_up:
            self._loop.add_writer(self._begun.requests, self._write)

    def _write(self) -> None:
        with suppress(BlockingIOError):
            try:
                del self._unsent[: os.write(self._begun.requests, self._unsent)]
            except BrokenPipeError:  # its end is told by the guard
                self._unsent.clear()
        if not self._unsent:
            self._loop.remove_writer(self._begun.requests)

    def _take_output(self) -> None:
        with suppress(BlockingIOError):
            while chunk := os.read(self._begun.output, TAIL_BYTES):
                self._tail += chunk
                del self._tail[: -TAIL_BYTES - 1]  # one more than is told, which tells that there was more
            self._loop.remove_reader(self._begun.output)

    def _take_frames(self) -> None:
        with suppress(BlockingIOError):
            while chunk := os.read(self._begun.answers, 1 << 16):
                self._heard += chunk
                self._take_pieces()
            self._all_ended({})  # nobody can write any more
            self._loop.remove_reader(self._begun.answers)

    def _take_pieces(self) -> None:
        while len(self._heard) >= self.PIECE.size:
            number, length = self.PIECE.unpack_from(self._heard)
            piece = bytes(self._heard[self.PIECE.size : self.PIECE.size + length])
            if len(piece) < length:
                break
            del self._heard[: self.PIECE.size + length]
            try:
                self._asked[number].hear(piece)
            except (KeyError, msgspec.DecodeError):  # something else wrote into the pipe
                self._all_ended({})
        if self.own.ended.done():
            self._all_ended(self.own.ended.result())

    def _all_ended(self, last: dict[str, Any]) -> None:
        for asked in self._asked.values():
            asked.end(last)
