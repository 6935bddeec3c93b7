"""llama-server as clients see it: the official openai package, streamed experts against resident ones.

    check.py --program build/bin/llama-server --model models/les-ref.gguf

1. The answers of one client with everything resident are noted, for each number of parallel sequences.
2. With experts streamed, every feature is tried, then clients ask at once for some seconds while others vanish and the
   number of slots changes. Each answer that was completed is compared with the noted one.
3. The same load with everything resident tells what differs because steps have other widths.
4. Descriptors, threads and memory are read after a first part of the load and at the end.

With one sequence at a time every step has the shape it had alone, and any difference fails the check.
"""

import argparse
import json
import sys
import time

import openai

import features
from load import Load
from server import Server


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--program", required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--text", required=True, help="file that prompts are cut out of")
    p.add_argument("--log", required=True, help="file for what the servers say")
    p.add_argument("--template", help="chat template for tools, where the model's own has none")
    p.add_argument("--limit", type=int, default=0, help="bytes of memory for the streamed server, as a control group")
    p.add_argument("--les", default="--les-slots 1", help="flags of the streamed server, as --les='--les-budget 4G'")
    p.add_argument("--resident", default="--les off --no-repack -lm none", help="flags of the other one; -lm mmap takes no memory of its own")
    p.add_argument("--clients", type=int, default=8)
    p.add_argument("--seconds", type=float, default=5, help="of each load")
    p.add_argument("--sequences", type=int, nargs="+", default=[1, 8])
    p.add_argument("--prompts", type=int, default=8)
    p.add_argument("--tokens", type=int, default=16)
    p.add_argument("--resize", type=int, nargs="*", default=[0, 1, 4, 99], help="slots to change to during the load")
    p.add_argument("--ctx", type=int, default=2048, help="tokens of each sequence")
    p.add_argument("--skip-resident", action="store_true", help="do not run the load with everything resident")
    p.add_argument("--skip-features", action="store_true", help="do the load only: a model of random weights fills no schema")
    return p.parse_args()


# How long the server keeps a connection that nobody uses, and a little more; and how many threads Go's runtime may add in a
# load: it keeps every one that it needed while others were in reads. Threads of the server itself stay as many as they were.
KEPT_SECONDS = 7
THREADS_MORE = 6


class Check:
    def __init__(self, args):
        self.args = args
        text = open(args.text).read()
        self.prompts = [text[i*997:][:60 + 37*i] for i in range(args.prompts)]
        self.failures = []

    def serve(self, sequences, on):
        a = self.args
        flags = ["-m", a.model, "-np", str(sequences), "-c", str(a.ctx*sequences), "--jinja", "-t", "2"]
        flags += ["--chat-template-file", a.template] if a.template else []
        flags += (a.les if on else a.resident).split()
        return Server(a.program, flags, a.log, a.limit if on else 0)

    def load(self, server):
        make = lambda: openai.OpenAI(base_url=server.url + "/v1", api_key="none", timeout=600, max_retries=0)
        return Load(server, make, self.prompts, self.args.tokens)

    def resident(self, sequences):
        """The expected answers and the load of resident experts, None if that is skipped."""
        with self.serve(sequences, False) as server:
            load = self.load(server)
            expected = load.expect()
            if self.args.skip_resident:
                return expected, None
            if not self.args.skip_features:
                features.check_all(server, load.make_client(), False)
            load.run(self.args.clients, self.args.seconds, expected)
            return expected, load

    def streamed(self, sequences, expected):
        with self.serve(sequences, True) as server:
            load = self.load(server)
            if not self.args.skip_features:
                features.check_all(server, load.make_client(), True)
            alone = load.expect()
            if alone != expected:
                self.failures.append(f"{sequences} sequences: one client alone gets other answers than with resident experts")
            load.run(self.args.clients, self.args.seconds/4, expected, seed=100, resize=self.args.resize)
            before = self.settled(server)
            load.run(self.args.clients, self.args.seconds*3/4, expected, resize=self.args.resize)
            after = self.settled(server)
            self.compare_held(before, after)
            report = {"held_before": before, "held_after": after, "metrics": {k: v for k, v in server.metrics().items() if k.startswith("les_")}}
            if server.group:
                report["limit"], report["group_peak"] = self.args.limit, server.group.peak()
            code = server.close()
            if code != 0:
                self.failures.append(f"the server ended with {code}")
            return load, report

    def settled(self, server):
        """What the server holds when nobody asks, with as many slots as the time before."""
        if self.args.resize:
            server.post("/les", {"slots": 0})
        for _ in range(100):
            if server.metrics()["requests_processing"] == 0:
                break
            time.sleep(0.2)
        time.sleep(KEPT_SECONDS)
        return server.held()

    def compare_held(self, before, after):
        for name, was, now, more in zip(("descriptors", "threads", "bytes"), before, after, (2, THREADS_MORE, max(0.03*before[2], 8 << 20))):
            if now > was + more:
                self.failures.append(f"{name}: {was} after the first part, {now} at the end")

    def say(self, sequences, name, load):
        if load:
            print(f"{sequences} sequences, {name}: {load.completed} answers, {len(load.different)} of them not as one client got them"
                  f" ({len(set(load.different))} different ones), {load.vanished} clients vanished, {len(load.errors)} errors")
            self.judge(sequences, load)

    def judge(self, sequences, load):
        if load.errors:
            self.failures.append(f"{sequences} sequences: {len(load.errors)} errors, the first: {load.errors[0]}")
        if load.completed == 0 or load.vanished == 0:
            self.failures.append(f"{sequences} sequences: {load.completed} answers, {load.vanished} clients vanished")
        if sequences == 1 and load.different:
            self.failures.append(f"one sequence: {len(load.different)} of {load.completed} answers differ, the first: {load.different[0]}")

    def run(self):
        for sequences in self.args.sequences:
            expected, resident = self.resident(sequences)
            streamed, report = self.streamed(sequences, expected)
            self.say(sequences, "resident", resident)
            self.say(sequences, "streamed", streamed)
            if resident:
                new = set(streamed.different) - set(resident.different)
                print(f"{sequences} sequences: {len(new)} of the different answers never came with everything resident")
            print(json.dumps(report), flush=True)
        return self.failures


def main():
    failures = Check(arguments()).run()
    for failure in failures:
        print("FAILED:", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
