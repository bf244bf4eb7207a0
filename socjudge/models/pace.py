"""Learn from a service's replies how many calls it takes at once, and how often: `Pace`. It looks at no clock."""

from __future__ import annotations

import math
from typing import NamedTuple

FIRST_CALLS = 2  # concurrent calls to a service about which nothing is known
GAP_S = 0.002  # seconds between two calls; calls sent together return together, and then wait for each other
WAVE = 3  # refusals in a row that are no accident
ENOUGH = 5  # accepted calls that show how often the service accepts one
FIRST_ENOUGH = 2  # while nothing is known yet
GROWTH = 0.02  # how much each success shortens the gap; refusals of up to 1 in 12 calls at random do not lengthen it
HEADROOM = 1.25  # calls at once, beside those that the gap explains, because some take longer than others
SLOW_S = 0.1  # seconds, or a call's duration if that is longer: a longer gap may have been measured too long,
SLOW_GROWTH = 0.1  # so each success shortens it by this much
CLOSED = 10  # gaps without an accepted call, which say that the service is closed for a while
MAX_HOLD_S = 60.0


class Sent(NamedTuple):
    """A call: when it was sent, the how many-th it was, and how many were then in flight, including this one."""

    at: float
    number: int
    at_once: int


class Pace:
    """What a service takes, as its replies have shown. Times are seconds of the caller's clock."""

    def __init__(self, first_calls: int = FIRST_CALLS) -> None:
        self.in_flight = 0
        self.worked = False
        self.next_at = -math.inf  # no call is sent before
        self.gap_s = 0.0  # between two calls, as refusals suggest; 0 before any refusal
        self.in_a_row = 0  # refusals of calls that were sent one after the other
        # How many calls at once the service's speed suggests, for servers that queue calls instead of refusing them.
        self._room = float(first_calls)
        self._seconds = 0.0  # smoothed duration of a call
        self._cut_at = -math.inf
        self._number = 0  # of the last call
        self._refused = 0  # number of the last refused call
        self._refused_at = -math.inf  # when it was known that the service refuses
        self._since: Sent | None = None  # the last call when a refusal was known; accepted calls are counted after it
        self._n_refused = 0  # calls after that one

    @property
    def places(self) -> float:
        """Return how many calls may be in flight."""
        if not self.gap_s or not self._seconds:
            return self._room
        # Little's law (Little 1961, Operations Research 9, 383-387), so that a service that takes one call at a time
        # gets one at a time.
        return min(self._room, max(1, round(HEADROOM * self._seconds / self.gap_s)))

    @property
    def _is_slow(self) -> bool:
        return self.gap_s > max(self._seconds, SLOW_S)

    def send(self, now: float, *, was_idle: bool = True) -> Sent:
        """Count a call that is sent now, and set when the next one may be sent. was_idle: whether no refused call was
        waiting to be sent again."""
        if was_idle and self.in_flight == 0 and now > self.next_at + 1:
            self._since = None  # in this pause, the service had nothing to accept
        self.in_flight += 1
        self._number += 1
        self.next_at = now + max(self.gap_s, min(GAP_S, self._seconds / self.in_flight))
        return Sent(now, self._number, self.in_flight)

    def succeeded(self, sent: Sent, now: float, timeout_s: float) -> None:
        seconds = now - sent.at
        self.gap_s /= 1 + (SLOW_GROWTH if self._is_slow else GROWTH)
        self._seconds = self._seconds + 0.3 * (seconds - self._seconds) if self.worked else seconds
        self.worked = True
        # A server that works on one call at a time answers so many within half of the timeout. If it works on many at
        # once, the room grows again and again.
        room = sent.at_once * timeout_s / 2 / max(seconds, self._seconds, 0.001)
        # After a timeout, by one per `room` successes: additive increase, multiplicative decrease (Chiu and Jain 1989,
        # Computer Networks and ISDN Systems 17, 1-14).
        if now - self._cut_at < 2 * timeout_s:
            room = min(room, self._room + 1 / self._room)
        if room > self._room or room < sent.at_once:
            self._room = max(1.0, room)

    def timed_out(self, sent: Sent, now: float) -> None:
        """Halve the room. Several timeouts of calls that were in flight together halve it only once."""
        if sent.at > self._cut_at:
            self._cut_at = now
            self._room = max(1.0, min(self._room, self.in_flight + 1) / 2)

    def refused(self, sent: Sent, now: float, told_s: float | None) -> None:
        """Learn from a refused call, which is to wait for `told_s` seconds (None: the service did not say). The others
        go on, as often as the service has accepted calls since an earlier refusal."""
        self._n_refused += self._since is not None and sent.number > self._since.number
        follows, self._refused = sent.number == self._refused + 1, sent.number
        if sent.at < self._refused_at:  # nobody knew yet that the service refuses
            return
        self.in_a_row = self.in_a_row + 1 if follows else 1
        self._refused_at = now
        # A limiter has nothing left at either refusal, so it accepted all that it accepts in this time. The first time, it
        # begins when the refusal is known: calls that wait for their connections reach the service much later.
        if self._since is None:
            self._since, self._n_refused = sent if self.gap_s else Sent(now, self._number, self.in_flight), 0
        accepted = sent.number - self._since.number - self._n_refused
        if accepted >= (ENOUGH if self.gap_s else FIRST_ENOUGH):
            self.gap_s = min((sent.at - self._since.at) / accepted, MAX_HOLD_S)
            self._since, self._n_refused = sent, 0
        if self.in_a_row >= WAVE:
            hold_s = max(self.gap_s, GAP_S) * 2.0 ** min(self.in_a_row - WAVE, 30)
            self.next_at = max(self.next_at, now + min(hold_s, MAX_HOLD_S if told_s is None else told_s))
            if hold_s > CLOSED * self.gap_s > 0:
                self._since = None
