"""What a client asks of a server, one function for each; a failed assertion is a finding."""

import json

TOOLS = [{
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"]},
    },
}]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "size": {"enum": ["small", "large"]}, "ready": {"type": "boolean"}},
    "required": ["name", "size", "ready"],
    "additionalProperties": False,
}
ASK = [{"role": "user", "content": "func main() {"}]


def chat(client):
    answer = client.chat.completions.create(model="any", messages=ASK, max_tokens=12, temperature=0)
    assert answer.choices[0].message.content, answer
    assert 0 < answer.usage.completion_tokens <= 12, answer.usage
    return answer.choices[0].message.content


def streaming(client, whole):
    parts = client.chat.completions.create(model="any", messages=ASK, max_tokens=12, temperature=0, stream=True)
    text = [p.choices[0].delta.content or "" for p in parts if p.choices]
    assert len(text) > 3, "the answer came in one piece"
    assert "".join(text) == whole, ("".join(text), whole)


def schema(client):
    wanted = {"type": "json_schema", "json_schema": {"name": "thing", "schema": SCHEMA, "strict": True}}
    answer = client.chat.completions.create(model="any", messages=ASK, max_tokens=200, temperature=0, response_format=wanted)
    value = json.loads(answer.choices[0].message.content)
    assert set(value) == {"name", "size", "ready"} and value["size"] in ("small", "large"), value


def tools(client):
    """The tool reaches the prompt; whether a model calls it is the model's affair, what a call looks like is not."""
    answer = client.chat.completions.create(model="any", messages=ASK, max_tokens=12, temperature=0, tools=TOOLS)
    assert answer.usage.prompt_tokens > 50, answer.usage
    for call in answer.choices[0].message.tool_calls or []:
        assert call.function.name == "weather" and "city" in json.loads(call.function.arguments), call


def legacy(client):
    answer = client.completions.create(model="any", prompt="package main", max_tokens=8, temperature=0, logprobs=3)
    assert answer.choices[0].text and answer.choices[0].logprobs, answer


def listed(client):
    assert len(client.models.list().data) == 1


def streamed(server):
    """The server tells that it streams, and reads."""
    plan = json.loads(server.get("/props"))["les"]
    assert plan["les"] == "on" and plan["slots"] >= plan["floor_slots"] > 0, plan
    m = server.metrics()
    assert m["les_lookups_total"] == m["les_hits_total"] + m["les_joins_total"] + m["les_misses_total"] > 0, m
    assert m["les_slots"] == plan["slots"], (m, plan)
    if plan["slots"] < plan["experts"]:
        assert m["les_demand_bytes_total"] + m["les_prefetch_bytes_total"] > 0, m


def resized(server):
    """The pool shrinks and grows on request; what cannot be is refused with a reason."""
    code, plan = server.post("/les", {})
    assert code == 200, plan
    before = server.held()[2]
    code, small = server.post("/les", {"slots": 0})
    assert code == 200 and small["slots"] == small["floor_slots"], small
    gone = plan["slots_bytes"] - small["slots_bytes"]
    assert before - server.held()[2] > 0.8*gone - (4 << 20), (before, server.held(), gone)
    code, same = server.post("/les", {"budget": plan["plan_bytes"]})
    assert code == 200 and abs(same["slots"] - plan["slots"]) <= 1, (same, plan)
    code, refused = server.post("/les", {"budget": "1M"})
    assert code == 400 and str(1 << 20) in refused["error"]["message"] and str(plan["floor_bytes"]) in refused["error"]["message"], refused
    for wrong in ({"budget": "much"}, {"slots": -1}, {"sluts": 1}, {"slots": 1, "budget": "1G"}, [1], {"slots": None}):
        code, refused = server.post("/les", wrong)
        assert code == 400 and refused["error"]["message"], (wrong, refused)
    assert server.metrics()["les_slots"] == same["slots"]


def check_all(server, client, on):
    whole = chat(client)
    streaming(client, whole)
    schema(client)
    tools(client)
    legacy(client)
    listed(client)
    if not on:
        assert json.loads(server.get("/props"))["les"] == {"les": "off"}
        assert "les_" not in server.get("/metrics")
        return whole
    streamed(server)
    resized(server)
    assert chat(client) == whole, "the answer changed with the number of slots"
    return whole
