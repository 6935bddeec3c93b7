// JSON schemas become grammars in upstream's code.
#include "les-draft.h"

#include "json-schema-to-grammar.h"
#include "json.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

char * les_draft_grammar(const char * schema, char * error, size_t size) {
    try {
        return strdup(json_schema_to_grammar(common_json::parse(schema)).c_str());
    } catch (const std::exception & reason) {
        snprintf(error, size, "%s", reason.what());
        return nullptr;
    }
}

void les_draft_free(char * text) { free(text); }
