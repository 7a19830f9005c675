"""Waiting for services that went away, for as long as `retry_for` allows."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from calve.errors import CalveError, Conflict, NotPermitted, TryAgain

Result = TypeVar("Result")

FIRST_WAIT = 0.1
LONGEST_WAIT = 5.0
QUIET_CONFLICTS = 3
"""Other writers of a table are nothing to speak of, unless they keep us out for long."""


class Abandoned(Exception):
    """The wait was given up because the run is to end and nothing is in flight."""


class Patience:
    """How long a pipeline waits, counted from the first failure in a row."""

    def __init__(
        self,
        retry_for: float,
        notify: Callable[[str], None] = lambda line: None,
        abandon: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.retries = 0
        self._retry_for = retry_for
        self._notify = notify
        self._abandon = abandon
        self._sleep = sleep
        self._clock = clock
        self._since: float | None = None
        self._failures = 0
        self._said = False
        self._renewals: list[Callable[[], None]] = []
        self._renewed = False

    def opened(self, renew: Callable[[], None]) -> None:
        """A service was opened; `renew` has it opened again, with new tokens and keys, when next asked.

        One that refuses what it took before is tried once more after that: tokens and keys run out, and are
        taken back.
        """
        self._renewals.append(renew)

    def keep_trying(self, action: Callable[[], Result]) -> Result:
        """Run `action` until it succeeds, fails for good, or patience runs out."""
        while True:
            try:
                result = action()
            except CalveError as error:
                self.wait(error)
            else:
                self.recovered()
                return result

    def wait(self, error: CalveError) -> None:
        """Sleep before the next try, or raise an error that another try does not help.

        Raises TryAgain when `retry_for` has passed since the first failure.
        """
        if self.renew(error):
            return
        if not error.retryable:
            raise error
        if self._abandon():
            raise Abandoned(str(error)) from error
        now = self._clock()
        self._since = now if self._since is None else self._since
        left = self._since + self._retry_for - now
        if left <= 0:
            raise TryAgain(f"{error}; waited {self._retry_for:g} s (retry_for)") from error
        if self._failures == (QUIET_CONFLICTS if isinstance(error, Conflict) else 0):
            self._notify(f"{error}; trying again for up to {left:.0f} s")
            self._said = True
        pause = min(FIRST_WAIT * 2.0 ** min(self._failures, 10), LONGEST_WAIT) * random.uniform(0.75, 1.25)
        self._failures += 1
        self.retries += 1
        self._sleep(min(pause, left))

    def recovered(self) -> None:
        """The service answers again."""
        if self._said:
            self._notify("the service answers again")
        self._since, self._failures, self._said = None, 0, False
        self._renewed = False

    def renew(self, error: CalveError) -> bool:
        """Have services opened again where `error` may come of a token or key that is no longer good.

        False where that is not so, and where it has not helped the last time.
        """
        if not isinstance(error, NotPermitted) or not self._renewals or self._renewed:
            return False
        self._renewed = self._said = True
        self._notify(f"{error}; trying once more with new credentials")
        self.retries += 1
        for renew in self._renewals:
            renew()
        return True
