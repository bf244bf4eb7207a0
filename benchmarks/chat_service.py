"""A chat service on loopback that answers after a fixed time, for benchmarks: `python chat_service.py DELAY_S [KIND]`.

Prints its port. POST gets a judgement; with "faults", by a seeded draw, 5 % get 429 and "Retry-After: 1", 2 % get 500, and 3 % get a
judgement that is cut off; with "refusals", 5 % get 429 and "Retry-After: 1"; with "one", calls are worked on one after
the other, also those that nobody waits for any more; with "bucket:RATE:BURST:TOLD", a token bucket of BURST that gets RATE
a second refuses the rest with 429 and the time until the next token (TOLD: "s" in whole seconds, "ms", or "no"); "bot" gives an answer instead of a judgement. GET /stats tells what was seen so far, and starts counting anew."""

import asyncio
import json
import math
import random
import sys
import time

CRITERIA = ["根拠性", "正確性", "網羅性", "安全性", "引用明示", "簡潔性"]
REASON = "手順書の該当箇所に基づいており、期待される要点を満たしています。"
JUDGEMENT = json.dumps(
    {"scores": dict.fromkeys(CRITERIA, 80), "rationale": dict.fromkeys(CRITERIA, REASON), "overall_comment": REASON},
    ensure_ascii=False,
)


def response(status: int, body: dict, *headers: str) -> bytes:
    data = json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", "content-type: application/json", f"content-length: {len(data)}", *headers]
    head = "\r\n".join(lines) + "\r\n\r\n"
    return head.encode() + data


def completion(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 2500, "completion_tokens": 400, "total_tokens": 2900}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    head = {"id": "x", "object": "chat.completion", "created": 0, "model": "gpt-4o-mini-2024-07-18"}
    return response(200, {**head, "choices": choices, "usage": usage})


GOOD, CUT = completion(JUDGEMENT), completion(JUDGEMENT[: len(JUDGEMENT) * 2 // 3])
ANSWER = completion("感染の疑いがある端末をネットワークから隔離し、SOCリーダーへ報告します。")


def too_many(*headers: str) -> bytes:
    return response(429, {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}, *headers)


WAIT_1 = too_many("retry-after: 1")
BROKEN = response(500, {"error": {"message": "The server had an error", "code": None}})
DELAY_S = float(sys.argv[1])
KIND, *LIMIT = (sys.argv[2] if len(sys.argv) > 2 else "").split(":")
RATE, BURST, TOLD = (float(LIMIT[0]), float(LIMIT[1]), LIMIT[2]) if LIMIT else (0.0, 0.0, "")
DRAW = random.Random(7)
SEEN = {"calls": 0, "refused": 0, "broken": 0, "cut": 0, "max_at_once": 0}
AT_ONCE = 0
FREE_AT, TOKENS, FILLED_AT = 0.0, BURST, 0.0


class Chat(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.received = transport, bytearray()

    def data_received(self, data: bytes) -> None:
        self.received += data
        while (end := self.received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self.received[:end]).lower()
            _, found, rest = head.partition(b"content-length:")
            length = int(rest.split(b"\r\n")[0]) if found else 0
            if len(self.received) < end + 4 + length:
                return
            del self.received[: end + 4 + length]
            if head.startswith(b"get"):
                self.transport.write(response(200, SEEN))
                SEEN.update(dict.fromkeys(SEEN, 0))
            else:
                self.call()

    def call(self) -> None:
        global AT_ONCE, FREE_AT, TOKENS, FILLED_AT
        AT_ONCE += 1
        SEEN["calls"] += 1
        SEEN["max_at_once"] = max(SEEN["max_at_once"], AT_ONCE)
        now, wait_s, reply, kind = time.monotonic(), DELAY_S, ANSWER if KIND == "bot" else GOOD, ""
        draw = DRAW.random() if KIND in ("faults", "refusals") else 1.0
        if KIND == "one":
            FREE_AT = max(now, FREE_AT) + DELAY_S
            wait_s = FREE_AT - now
        elif KIND == "bucket":
            TOKENS, FILLED_AT = min(BURST, TOKENS + RATE * (now - FILLED_AT)), now
            if TOKENS < 1:
                left_s = (1 - TOKENS) / RATE
                told = {"s": [f"retry-after: {math.ceil(left_s)}"], "ms": [f"retry-after-ms: {1000 * left_s:.0f}"]}
                reply, kind, wait_s = too_many(*told.get(TOLD, [])), "refused", 0.001
            else:
                TOKENS -= 1
        elif KIND == "refusals" and draw < 0.05:
            reply, kind, draw = WAIT_1, "refused", 1.0
        for share, fault, name in ((0.05, WAIT_1, "refused"), (0.07, BROKEN, "broken"), (0.10, CUT, "cut")):
            if KIND == "faults" and draw < share:
                reply, kind = fault, name
                break
        if kind:
            SEEN[kind] += 1
        asyncio.get_running_loop().call_later(wait_s, self.reply, reply)

    def reply(self, data: bytes) -> None:
        global AT_ONCE
        AT_ONCE -= 1
        self.transport.write(data)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Chat, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
