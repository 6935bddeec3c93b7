"""Clients that ask at once, of which some vanish in the middle of an answer."""

import random
import socket
import threading
import time


class Load:
    """Answers to prompts, greedy, and what differed from the expected ones."""

    def __init__(self, server, make_client, prompts, tokens):
        self.server, self.make_client, self.prompts, self.tokens = server, make_client, prompts, tokens
        self.lock = threading.Lock()
        self.completed = self.vanished = 0
        self.different = []  # (number of the prompt, answer)
        self.errors = []

    def ask(self, client, i):
        answer = client.completions.create(model="any", prompt=self.prompts[i], max_tokens=self.tokens, temperature=0,
                                           extra_body={"cache_prompt": False})
        return answer.choices[0].text

    def expect(self):
        """The answers of one client alone."""
        with self.make_client() as client:
            return [self.ask(client, i) for i in range(len(self.prompts))]

    def run(self, clients, seconds, expected, seed=1, resize=()):
        """Runs clients for some seconds; resize are numbers of slots to change to meanwhile."""
        end = time.time() + seconds
        threads = [threading.Thread(target=self.client, args=(random.Random(seed + n), end, expected)) for n in range(clients)]
        if resize:
            threads.append(threading.Thread(target=self.resizer, args=(random.Random(seed), end, resize)))
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    def client(self, chance, end, expected):
        with self.make_client() as client:
            while time.time() < end:
                try:
                    self.step(client, chance, expected)
                except Exception as error:  # whatever it is, the others go on
                    with self.lock:
                        self.errors.append(repr(error))

    def step(self, client, chance, expected):
        i = chance.randrange(len(self.prompts))
        if chance.random() < 0.25:
            self.vanish(client, chance, i)
        else:
            self.complete(client, i, expected)

    def complete(self, client, i, expected):
        text = self.ask(client, i)
        with self.lock:
            self.completed += 1
            if text != expected[i]:
                self.different.append((i, text))

    def vanish(self, client, chance, i):
        """Goes away after some pieces of a streamed answer, or without reading at all."""
        if chance.random() < 0.5:
            parts = client.completions.create(model="any", prompt=self.prompts[i], max_tokens=10*self.tokens, temperature=0, stream=True)
            for _ in range(chance.randrange(1, 6)):
                next(iter(parts), None)
            parts.close()
        else:
            body = b'{"prompt": "package main", "n_predict": 500, "stream": true}'
            with socket.create_connection(("127.0.0.1", self.server.port)) as s:
                s.sendall(b"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
                s.sendall(body[:chance.randrange(1, len(body) + 1)])
                time.sleep(chance.random()*0.3)
        with self.lock:
            self.vanished += 1

    def resizer(self, chance, end, resize):
        while time.time() < end:
            time.sleep(chance.random())
            code, answer = self.server.post("/les", {"slots": chance.choice(resize)})
            if code != 200:
                with self.lock:
                    self.errors.append(repr(answer))
