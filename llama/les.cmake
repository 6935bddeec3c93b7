# How llama.cpp is built here, and what is built on it: the programs wanted from
# upstream (target les-tools) and lescli. The C tests are a build of their own,
# with sanitizers: scripts/test-csrc.sh.

# Upstream's defaults assume that it is the top project; a -D on the command line
# still wins over these. GGML_NATIVE keeps its own default: on, unless the build
# is a cross build or is to be reproducible.
set(BUILD_SHARED_LIBS     ON  CACHE BOOL "build shared libraries")
set(LLAMA_BUILD_COMMON    ON  CACHE BOOL "llama: build common utils library")
set(LLAMA_BUILD_TOOLS     ON  CACHE BOOL "llama: build tools")
set(LLAMA_BUILD_SERVER    ON  CACHE BOOL "llama: build server example")
set(LLAMA_BUILD_TESTS     ON  CACHE BOOL "llama: build tests")
set(LLAMA_BUILD_EXAMPLES  OFF CACHE BOOL "llama: build examples")
set(LLAMA_BUILD_APP       OFF CACHE BOOL "llama: build the unified binary")
set(LLAMA_TOOLS_INSTALL   OFF CACHE BOOL "llama: install tools")
set(LLAMA_TESTS_INSTALL   OFF CACHE BOOL "llama: install tests")

# What is built is the release that llama/upstream.lock pins.
set(LLAMA_BUILD_IS_DEV    OFF CACHE BOOL "llama: dev build")

# Nothing is downloaded while building: models are local files, so no HTTPS, and
# the server comes without its web page, which would be fetched or built by npm.
set(LLAMA_OPENSSL         OFF CACHE BOOL "llama: use openssl to support HTTPS")
set(LLAMA_BUILD_UI        OFF CACHE BOOL "llama: build the embedded Web UI for server")
set(LLAMA_USE_PREBUILT_UI OFF CACHE BOOL "llama: use prebuilt UI from HF Bucket when available")

# The launcher is set by the top project already.
set(GGML_CCACHE           OFF CACHE BOOL "ggml: use ccache if available")

# Only what the targets below need of it is built.
add_subdirectory(${CMAKE_SOURCE_DIR}/llama/llama.cpp ${CMAKE_BINARY_DIR}/llama EXCLUDE_FROM_ALL)

add_custom_target(les-tools ALL)
foreach (tool llama-cli llama-completion llama-server llama-bench llama-perplexity llama-quantize
              llama-imatrix llama-mtmd-cli test-llama-archs)
    if (TARGET ${tool})
        add_dependencies(les-tools ${tool})
    endif()
endforeach()

# What lescli uses of llama.cpp's common code: the drafters, and what they need.
# All of it (llama-common) would double what the demo has to build.
set(common ${CMAKE_SOURCE_DIR}/llama/llama.cpp/common)
add_library(les-draft SHARED EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/cgo/draft/csrc/les-draft.cpp
            ${CMAKE_SOURCE_DIR}/cgo/draft/csrc/les-fits.cpp ${CMAKE_SOURCE_DIR}/cgo/draft/csrc/les-schema.cpp)
foreach (source speculative sampling common log json fit unicode trie reasoning-budget
                ngram-cache ngram-map ngram-mod json-schema json-schema-to-grammar)
    target_sources(les-draft PRIVATE ${common}/${source}.cpp)
endforeach()
target_include_directories(les-draft PRIVATE ${common} ${CMAKE_SOURCE_DIR}/llama/llama.cpp/src
                           ${CMAKE_SOURCE_DIR}/llama/llama.cpp/vendor)
target_link_libraries(les-draft PRIVATE llama-common-base llama ggml)
target_compile_features(les-draft PRIVATE cxx_std_17)

# lescli is built by the go command every time: it has its own cache and knows
# better than a list of files here whether there is anything to do.
if (EXISTS ${CMAKE_SOURCE_DIR}/cmd/lescli)
    add_custom_target(lescli ALL
        COMMAND ${CMAKE_COMMAND} -E env LES_BUILD_DIR=${CMAKE_BINARY_DIR}
                ${CMAKE_SOURCE_DIR}/scripts/go.sh build -o ${CMAKE_BINARY_DIR}/bin/lescli ./cmd/lescli
        WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
        COMMENT "Building lescli"
        VERBATIM)
    add_dependencies(lescli llama ggml les-draft)
else()
    message(STATUS "lescli: skipped, cmd/lescli is missing")
    add_custom_target(lescli COMMAND ${CMAKE_COMMAND} -E echo "lescli: skipped, cmd/lescli is missing")
    add_dependencies(lescli llama ggml)
endif()

# The library for applications, and the engine that libllama opens in programs that
# want experts streamed. The engine is Go, built as lescli is.
if (LES AND EXISTS ${CMAKE_SOURCE_DIR}/cmd/liblesext)
    set(api ${CMAKE_SOURCE_DIR}/cmd/liblesext/csrc)
    set(engine liblesext-engine${CMAKE_SHARED_LIBRARY_SUFFIX}) # its name for what opens it, on every system
    add_custom_target(lesext-engine ALL
        COMMAND ${CMAKE_COMMAND} -E env LES_BUILD_DIR=${CMAKE_BINARY_DIR}
                ${CMAKE_SOURCE_DIR}/scripts/go.sh build -buildmode=c-shared
                -o ${CMAKE_BINARY_DIR}/engine/${engine} ./cmd/liblesext
        COMMAND ${CMAKE_COMMAND} -E rename ${CMAKE_BINARY_DIR}/engine/${engine} ${CMAKE_BINARY_DIR}/bin/${engine}
        WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
        COMMENT "Building liblesext-engine"
        VERBATIM)
    add_dependencies(lesext-engine llama ggml)

    add_library(lesext SHARED ${api}/lesext.c)
    set_target_properties(lesext PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} C_VISIBILITY_PRESET hidden)
    target_compile_definitions(lesext PRIVATE LESEXT_VERSION="${PROJECT_VERSION}")
    target_link_libraries(lesext PRIVATE ggml-base)
    add_dependencies(lesext lesext-engine)

    # Both in one archive, for programs that want no library beside them; Go's runtime
    # then starts with the program.
    add_library(lesext-static-api OBJECT EXCLUDE_FROM_ALL ${api}/lesext.c)
    target_compile_definitions(lesext-static-api PRIVATE LESEXT_VERSION="${PROJECT_VERSION}" LESEXT_STATIC)
    target_include_directories(lesext-static-api PRIVATE ${CMAKE_SOURCE_DIR}/cgo/les/csrc)
    add_custom_target(lesext-static
        COMMAND ${CMAKE_COMMAND} -E env LES_BUILD_DIR=${CMAKE_BINARY_DIR}
                ${CMAKE_SOURCE_DIR}/scripts/go.sh build -buildmode=c-archive
                -o ${CMAKE_BINARY_DIR}/engine/liblesext.a ./cmd/liblesext
        COMMAND ${CMAKE_AR} r ${CMAKE_BINARY_DIR}/engine/liblesext.a $<TARGET_OBJECTS:lesext-static-api>
        COMMAND ${CMAKE_COMMAND} -E rename ${CMAKE_BINARY_DIR}/engine/liblesext.a ${CMAKE_BINARY_DIR}/bin/liblesext.a
        WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
        COMMENT "Building liblesext.a"
        VERBATIM)
    add_dependencies(lesext-static llama ggml lesext-static-api)
    include(llama/install.cmake)
endif()
