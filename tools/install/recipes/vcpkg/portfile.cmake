# A port for vcpkg. Not tested: nobody has built it. The address and its hash are to be filled in.
vcpkg_download_distfile(ARCHIVE URLS https://ckpt.invalid/ckpt-${VERSION}.tar.gz FILENAME ckpt-${VERSION}.tar.gz SHA512 0)
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE ${ARCHIVE})
vcpkg_cmake_configure(SOURCE_PATH ${SOURCE_PATH} OPTIONS -DCKPT_BUILD_TESTS=OFF -DCORE_WITH_CUDA=OFF -DCKPT_BUILD_SHARED=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME ckpt CONFIG_PATH lib/cmake/ckpt)
vcpkg_copy_tools(TOOL_NAMES ckpt AUTO_CLEAN)
file(REMOVE_RECURSE ${CURRENT_PACKAGES_DIR}/debug/include)
