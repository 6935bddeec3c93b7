// Which tensors a buffer-type override means is decided by the C++ library's regular expressions, as in the loader.
#include "les-fit.h"

#include <exception>
#include <regex>
#include <string>

const char * les_override_hits(const char * pattern, int32_t n_blocks) {
    static const char * const roles[] = { "gate", "up", "down", "gate_up" };
    static const char * const kinds[] = { "exps", "chexps" };
    static thread_local std::string name;
    try {
        const std::regex wanted(pattern);
        for (int32_t block = 0; block < n_blocks; block++) {
            for (const char * role : roles) {
                for (const char * kind : kinds) {
                    name = "blk." + std::to_string(block) + ".ffn_" + role + "_" + kind + ".weight";
                    if (std::regex_search(name, wanted)) {
                        return name.c_str();
                    }
                }
            }
        }
    } catch (const std::exception &) {
        // the loader refuses what is no pattern
    }
    return nullptr;
}
