# Compiles the C side of LES into ggml: its core into ggml-base, its kernels into every variant of the CPU backend.
# Included by ggml's own build where GGML_LES_DIR names this folder.

# What LES needs of the operating system is in one file per system, and in one for what some have in common.
if (CMAKE_SYSTEM_NAME MATCHES "^(Linux|Android|OHOS)$")
    set(LES_OS ${GGML_LES_DIR}/les-os-linux.c ${GGML_LES_DIR}/les-os-posix.c ${GGML_LES_DIR}/les-library-posix.c)
elseif (APPLE)
    set(LES_OS ${GGML_LES_DIR}/les-os-darwin.c ${GGML_LES_DIR}/les-os-posix.c ${GGML_LES_DIR}/les-library-posix.c)
elseif (WIN32)
    set(LES_OS ${GGML_LES_DIR}/les-os-windows.c ${GGML_LES_DIR}/les-library-windows.c)
else()
    message(FATAL_ERROR "LES does not know ${CMAKE_SYSTEM_NAME}. Configure with -DLES=OFF to build llama.cpp as it is.")
endif()

target_sources(ggml-base PRIVATE
    ${GGML_LES_DIR}/les.c
    ${GGML_LES_DIR}/les-load.c
    ${GGML_LES_DIR}/les-layout.c
    ${GGML_LES_DIR}/les-router.c
    ${GGML_LES_DIR}/les-file.c
    ${GGML_LES_DIR}/les-graph.c
    ${GGML_LES_DIR}/les-option.c
    ${GGML_LES_DIR}/les-fit.c
    ${GGML_LES_DIR}/les-override.cpp
    ${GGML_LES_DIR}/les-host.c
    ${GGML_LES_DIR}/les-hosted.c
    ${GGML_LES_DIR}/les-report.c
    ${GGML_LES_DIR}/les-verify.c
    ${LES_OS})
target_include_directories(ggml-base PUBLIC $<BUILD_INTERFACE:${GGML_LES_DIR}>)
target_compile_definitions(ggml-base PUBLIC GGML_USE_LES)
if (WIN32)
    target_link_libraries(ggml-base PRIVATE synchronization)
    if (BUILD_SHARED_LIBS AND NOT MINGW) # which exports everything as long as nothing is marked
        target_compile_definitions(ggml-base PRIVATE LES_SHARED)
    endif()
endif()

# The hooks look at how a model is to be loaded; ggml is not linked to anything of llama.cpp for that.
set_source_files_properties(${GGML_LES_DIR}/les-host.c PROPERTIES INCLUDE_DIRECTORIES ${CMAKE_CURRENT_SOURCE_DIR}/../../include)
target_link_libraries(ggml-base PRIVATE ${CMAKE_DL_LIBS})

function(les_add_cpu_sources target)
    target_sources(${target} PRIVATE
        ${GGML_LES_DIR}/les-cpu.c
        ${GGML_LES_DIR}/les-node.c
        ${GGML_LES_DIR}/les-unit.c
        ${GGML_LES_DIR}/les-dot.c
        ${GGML_LES_DIR}/les-work.c
        ${GGML_LES_DIR}/les-predict.c
        ${GGML_LES_DIR}/les-rows.c
        ${GGML_LES_DIR}/les-buffer.c)
    target_include_directories(${target} PRIVATE ${GGML_LES_DIR})
endfunction()
