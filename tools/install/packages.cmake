# Debian packages by CPack, from a build folder that is configured with -DCMAKE_INSTALL_PREFIX=/usr:
# `cmake --build build-packages --target packages` writes build-packages/packages/*.deb.
#   ckpt         the program, its helpers, manual pages, completion
#   libckpt-c1   libckpt_c.so.1, whose interface is promised (tests/link/abi)
#   libckpt-dev  headers, archives, CMake package and pkg-config files
#   python3-ckpt the package of tools/python, where the folder is configured with -DCKPT_BUILD_PYTHON=ON and Debian's Python;
#                its program and helper are those of ckpt
# SOURCE_DATE_EPOCH in the environment gives the same bytes each time.
if(NOT TARGET ckpt_c OR NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  return()  # the folder of libraries is another one elsewhere
endif()
set(debian ${CMAKE_CURRENT_SOURCE_DIR}/debian)
find_program(GZIP_PROGRAM gzip)
find_program(DPKG_SHLIBDEPS_PROGRAM dpkg-shlibdeps)
if(NOT GZIP_PROGRAM OR NOT DPKG_SHLIBDEPS_PROGRAM)
  return()
endif()

# What every package has under its own name.
add_custom_command(
  OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/changelog.gz
  COMMAND ${GZIP_PROGRAM} -9nc ${debian}/changelog > ${CMAKE_CURRENT_BINARY_DIR}/changelog.gz
  DEPENDS ${debian}/changelog
  VERBATIM)
add_custom_target(changelog DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/changelog.gz)
# Packages have their manual pages packed.
set(packed_manual ${CMAKE_CURRENT_BINARY_DIR}/man1)
add_custom_target(
  packed_manual
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${packed_manual}
  COMMAND ${CMAKE_COMMAND} -E copy_directory ${PROJECT_BINARY_DIR}/share/man1 ${packed_manual}
  COMMAND ${GZIP_PROGRAM} -9nr ${packed_manual}
  DEPENDS ckpt_docs
  VERBATIM)
install(DIRECTORY ${packed_manual} DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT packed_manual EXCLUDE_FROM_ALL)
get_target_property(so_version ckpt_c SOVERSION)
set(library_package libckpt-c${so_version})
set(packages tool=ckpt c=${library_package} dev=libckpt-dev)
if(TARGET ckpt_python)
  list(APPEND packages python_debian=python3-ckpt)
endif()
foreach(pair ${packages})
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 package)
  install(FILES ${debian}/copyright ${CMAKE_CURRENT_BINARY_DIR}/changelog.gz
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component} EXCLUDE_FROM_ALL)
  string(TOUPPER ${component} component)
  set(CPACK_DEBIAN_${component}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${component}_FILE_NAME DEB-DEFAULT)
endforeach()

install(FILES ${debian}/lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME ckpt COMPONENT tool
        EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ckpt)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The authors of ckpt <ckpt@ckpt.invalid>")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL tool helper packed_manual c dev)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
# The library finds its helper in the package of the program.
set(CPACK_DEBIAN_C_PACKAGE_RECOMMENDS "ckpt, libcurl4")
set(CPACK_DEBIAN_C_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_C_PACKAGE_CONTROL_EXTRA ${debian}/triggers)
set(CPACK_DEBIAN_TOOL_PACKAGE_SECTION science)
set(CPACK_DEBIAN_TOOL_PACKAGE_RECOMMENDS libcurl4)  # opened when a file lies on another machine
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)
# libc6 and those behind it are the plug-in's for MPI, whose own library the launcher brings.
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
    "${library_package} (= ${PROJECT_VERSION}), libzstd-dev, libxxhash-dev, libdeflate-dev, libsimdjson-dev, libisal-dev, nettle-dev, libre2-dev, zlib1g-dev, libdnnl-dev, libopenblas-dev, libpng-dev, libjpeg-dev, libc6, libgcc-s1, libstdc++6")
set(CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS "libgloo-dev, openmpi-bin")  # for training in several processes
set(summary "Reads, repairs, converts and writes model checkpoints")
set(CPACK_COMPONENT_TOOL_DESCRIPTION "${summary}
 Files of PyTorch, safetensors, GGUF, NumPy, HDF5 and Keras are listed,
 compared, verified, renamed and converted, and nothing in them is executed.")
set(CPACK_COMPONENT_C_DESCRIPTION "${summary} (C library)
 The C interface, for C and every language that can call it.")
set(CPACK_COMPONENT_DEV_DESCRIPTION "${summary} (development files)
 Headers and archives of the checkpoint library, of the runtime that trains
 and runs models, and of the models.")
if(TARGET ckpt_python)
  math(EXPR next_minor "${CKPT_PYTHON_MINOR} + 1")
  set(CPACK_DEBIAN_PYTHON_DEBIAN_PACKAGE_SECTION python)
  set(CPACK_DEBIAN_PYTHON_DEBIAN_PACKAGE_DEPENDS
      "python3 (>= 3.${CKPT_PYTHON_MINOR}), python3 (<< 3.${next_minor}), ckpt (= ${PROJECT_VERSION})")
  set(CPACK_DEBIAN_PYTHON_DEBIAN_PACKAGE_RECOMMENDS "python3-numpy, libcurl4")
  set(CPACK_DEBIAN_PYTHON_DEBIAN_PACKAGE_CONTROL_EXTRA ${debian}/python3-ckpt/postinst ${debian}/python3-ckpt/prerm)
  set(CPACK_DEBIAN_PYTHON_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
  set(CPACK_COMPONENT_PYTHON_DEBIAN_DESCRIPTION "${summary} (Python)
 Tensors of a file as arrays of NumPy and PyTorch, read when they are asked
 for; why a file does not load into a module, and what makes it load.")
  set(python_folder lib/python3/dist-packages)
  install(TARGETS ckpt_python ckpt_python_library LIBRARY DESTINATION ${python_folder}/ckpt COMPONENT python_debian EXCLUDE_FROM_ALL)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/tools/python/ckpt DESTINATION ${python_folder} COMPONENT python_debian EXCLUDE_FROM_ALL
          FILES_MATCHING PATTERN *.py PATTERN py.typed)
  install(FILES ${PROJECT_BINARY_DIR}/python/ckpt/_ckpt.pyi DESTINATION ${python_folder}/ckpt COMPONENT python_debian EXCLUDE_FROM_ALL)
  list(APPEND CPACK_COMPONENTS_ALL python_debian)
  set(python_targets ckpt_python ckpt_python_stub)
endif()
include(CPack)
if(TARGET ckpt_python)
  cpack_add_component_group(python_debian)
  cpack_add_component(python_debian GROUP python_debian)
endif()
cpack_add_component_group(tool)
cpack_add_component_group(c)
cpack_add_component_group(dev)
cpack_add_component(tool GROUP tool)
cpack_add_component(helper GROUP tool)
cpack_add_component(packed_manual GROUP tool)
cpack_add_component(c GROUP c)
cpack_add_component(dev GROUP dev)

add_custom_target(
  packages
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${CPACK_PACKAGE_DIRECTORY}
  COMMAND ${CMAKE_CPACK_COMMAND} --config ${PROJECT_BINARY_DIR}/CPackConfig.cmake
  DEPENDS changelog packed_manual ckpt_cli ckpt_run ckpt_hdf5 ckpt_c core_base core ckpt ckpt_bridge ckpt_remote zoo_keys zoo dist dist_bridge tensorboard onnx ${python_targets}
  WORKING_DIRECTORY ${PROJECT_BINARY_DIR}
  VERBATIM)
