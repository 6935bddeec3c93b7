// What llama-server tells of LES and is asked. As in les-programs.h, the server's types come as template arguments.

#pragma once

#include "les-report.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>

// The whole text of a report.
inline std::string les_text_of(size_t (*report)(char *, size_t)) {
    std::string text(report(nullptr, 0) + 512, '\0'); // numbers may grow meanwhile
    const size_t n = report(&text[0], text.size());
    text.resize(n < text.size() ? n : text.size() - 1);
    return text;
}

// Bounds what the server keeps of earlier prompts by default, which is more than a budget for the whole process has room for:
// a sixteenth of it, and two checkpoints of each sequence. Other numbers than the defaults are taken as they are. Both are chosen,
// not measured: slots lose at most a sixteenth to prompts that may never come again.
template <typename Params>
void les_bound_caches(Params & params) {
    const Params defaults{};
    les_plan     plan  = {};
    const llama_model * model = les_host_first_model();
    if (!model || les_host_plan(model, &plan) != 0 || plan.budget == 0) {
        return;
    }
    const int64_t share_mib = plan.budget/16 >> 20;
    if (params.cache_ram_mib == defaults.cache_ram_mib && share_mib < params.cache_ram_mib) {
        params.cache_ram_mib = static_cast<int32_t>(share_mib);
    }
    if (params.n_ctx_checkpoints == defaults.n_ctx_checkpoints) {
        params.n_ctx_checkpoints = 2;
    }
}

// POST /les

// The body of a request, an object of strings, numbers and nulls. A key that is there twice would count once.
template <typename Json>
Json les_parse_body(const std::string & text) {
    Json   body;
    size_t keys = 0;
    bool   in_string = false;
    if (text.empty()) {
        throw std::invalid_argument("the body is empty; {} changes nothing, and the answer is the plan");
    }
    try {
        body = Json::parse(text);
    } catch (const std::exception & e) {
        throw std::invalid_argument(std::string("the body is not JSON: ") + e.what());
    }
    for (size_t i = 0; i < text.size(); i++) {
        in_string ^= text[i] == '"';
        keys += !in_string && text[i] == ':';
        i += in_string && text[i] == '\\'; // what follows is of the string
    }
    if (body.is_object() && keys > body.size()) {
        throw std::invalid_argument("the body has a key twice, or an object inside");
    }
    return body;
}

// A value as the option of that name has it; of no other type it would be taken as text.
template <typename Json>
std::string les_body_text(const Json & body, const char * name) {
    const Json & value = body.at(name);
    if (value.is_array() || value.is_object()) { // printing it would take a frame of the stack for each bracket
        throw std::invalid_argument(std::string(name) + ": is a list or an object");
    }
    if (value.is_number_float() && std::floor(value.template get<double>()) != value.template get<double>()) {
        throw std::invalid_argument(std::string(name) + ": is a number with a fraction");
    }
    if (!value.is_string()) {
        return value.dump();
    }
    const std::string text = value.template get<std::string>();
    if (text.find('\0') != std::string::npos) {
        throw std::invalid_argument(std::string(name) + ": has a NUL");
    }
    if (std::string(name) == "slots" && !text.empty() && std::isdigit(static_cast<unsigned char>(text[0]))) {
        throw std::invalid_argument("slots: is a string, want a number or a word");
    }
    return text;
}

// The streamed model that a request means: the one with the name of this file; else the one that was loaded first, if the name
// is one of the server's, or has been looked at by a router.
template <typename Json, typename Names>
const llama_model * les_meant(const Json & body, const Names & names, bool routed) {
    les_told told[LES_N_TOLD];
    const size_t n = les_host_told(told, LES_N_TOLD);
    if (n == 0) {
        throw std::invalid_argument("no model of this process is streamed");
    }
    if (!told[0].model) {
        throw std::invalid_argument("the server sleeps, and has no model and no pool; the next request for tokens wakes it");
    }
    if (!body.contains("model")) {
        return told[0].model;
    }
    if (!body.at("model").is_string()) {
        throw std::invalid_argument("model: is no name");
    }
    const std::string name = les_body_text(body, "model");
    std::string known;
    for (size_t i = 0; i < n; i++) {
        if (name == told[i].name) {
            return told[i].model;
        }
        known += (i > 0 ? ", " : "") + std::string(told[i].name);
    }
    if (!routed && std::find(names.begin(), names.end(), name) == names.end()) {
        throw std::invalid_argument("model: no streamed model has that name; there is " + known);
    }
    return told[0].model;
}

// {"budget": "3G"} or a number of bytes, {"slots": 4} or a word of --les-slots; without either nothing changes. Of several
// streamed models "model" names one. The answer is the plan.
template <typename Result, typename Json, typename Names>
std::unique_ptr<Result> les_change(const Json & body, const Names & names, bool routed) {
    if (!body.is_object() || (body.contains("budget") && body.contains("slots"))) {
        throw std::invalid_argument("want {\"budget\": SIZE} or {\"slots\": NUMBER}");
    }
    for (const auto & entry : body.items()) {
        const std::string key = entry.key();
        if (key != "budget" && key != "slots" && key != "model") {
            throw std::invalid_argument("unknown key " + Json(key).dump() + ": want {\"budget\": SIZE} or {\"slots\": NUMBER}");
        }
    }
    const llama_model * model = les_meant(body, names, routed);
    for (const char * name : { "budget", "slots" }) {
        if (body.contains(name) && les_host_change(model, name, les_body_text(body, name).c_str()) != 0) {
            throw std::invalid_argument(les_host_last_error());
        }
    }
    auto result  = std::make_unique<Result>();
    result->data = les_text_of(les_report_plan);
    return result;
}

// Adds the routes: GET /les answers with the plan. A router, which has ways to pass requests on, has no model of its own.
template <typename Result, typename Json, typename Request, typename Http, typename Wrap, typename Params, typename Router>
void les_add_routes(Http & http, const Wrap & wrap, const Params & params, const Router * router) {
    const bool routed = std::getenv("LLAMA_SERVER_ROUTER_PORT") != nullptr;
    http.post("/les", wrap([names = params.model_alias, routed, router](const Request & request) {
        const Json body = les_parse_body<Json>(request.body);
        if (router && !body.contains("model")) {
            throw std::invalid_argument("model: its name is missing, and there are several");
        }
        return router ? router->proxy_post(request) : les_change<Result>(body, names, routed);
    }));
    http.get("/les", wrap([router](const Request & request) {
        if (router) {
            return router->proxy_get(request);
        }
        auto result  = std::make_unique<Result>();
        result->data = les_text_of(les_report_plan);
        return result;
    }));
}
