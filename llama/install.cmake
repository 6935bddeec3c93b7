# What `cmake --install` puts where: programs that were built into bin, libraries and
# the files by which they are found into lib, headers into include. The tree can be
# moved: everything is found relative to where it lies.
set(CMAKE_INSTALL_LIBDIR lib CACHE PATH "libraries, below the prefix")
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(upstream ${CMAKE_SOURCE_DIR}/llama/llama.cpp)
# Upstream names headers relative to its own folders; they are installed below.
set_target_properties(llama ggml PROPERTIES PUBLIC_HEADER "")
install(TARGETS llama ggml ggml-base lesext LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if (TARGET ggml-cpu) # else there is one for each kind of processor, opened when it is wanted
    install(TARGETS ggml-cpu LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
file(GLOB headers ${upstream}/ggml/include/*.h)
install(FILES ${upstream}/include/llama.h ${upstream}/include/llama-cpp.h ${headers} ${CMAKE_SOURCE_DIR}/cmd/liblesext/csrc/lesext.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_BINARY_DIR}/bin/${engine} DESTINATION ${CMAKE_INSTALL_LIBDIR}
        PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

# What is not always built is installed when it is there.
install(FILES ${CMAKE_BINARY_DIR}/bin/liblesext.a DESTINATION ${CMAKE_INSTALL_LIBDIR} OPTIONAL)
install(DIRECTORY ${CMAKE_BINARY_DIR}/bin/ DESTINATION ${CMAKE_INSTALL_BINDIR} USE_SOURCE_PERMISSIONS
        FILES_MATCHING PATTERN "lescli" PATTERN "llama-*" PATTERN "*.so*" EXCLUDE)
install(DIRECTORY ${CMAKE_BINARY_DIR}/bin/ DESTINATION ${CMAKE_INSTALL_LIBDIR} USE_SOURCE_PERMISSIONS
        FILES_MATCHING PATTERN "libllama-*.so*" PATTERN "libmtmd.so*" PATTERN "libles-draft.so*" PATTERN "libggml-cpu-*.so")

# What the go command links also looks where it was built, which is nobody's business.
if (CMAKE_VERSION VERSION_GREATER_EQUAL 3.21 AND NOT APPLE)
    install(CODE [[
        foreach (file bin/lescli lib/liblesext-engine.so)
            set(installed "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${file}")
            if (EXISTS "${installed}")
                file(RPATH_SET FILE "${installed}" NEW_RPATH "$ORIGIN:$ORIGIN/../lib")
            endif()
        endforeach()
    ]])
endif()

configure_file(${CMAKE_SOURCE_DIR}/cmd/liblesext/csrc/lesext.pc.in ${CMAKE_BINARY_DIR}/lesext.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/lesext.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmd/liblesext/csrc/lesext-config.cmake.in ${CMAKE_BINARY_DIR}/lesext-config.cmake
        INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lesext
        PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/lesext-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/lesext-config.cmake ${CMAKE_BINARY_DIR}/lesext-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lesext)
