# Random numbers and printing. Results must not depend on which multiplications the compiler fuses with additions.
target_sources(core PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/generator.cpp
  ${CMAKE_CURRENT_LIST_DIR}/print.cpp
  ${CMAKE_CURRENT_LIST_DIR}/print_format.cpp
  ${CMAKE_CURRENT_LIST_DIR}/print_number.cpp
  ${CMAKE_CURRENT_LIST_DIR}/random.cpp
  ${CMAKE_CURRENT_LIST_DIR}/random_on_device.cpp
  ${CMAKE_CURRENT_LIST_DIR}/random_truncated.cpp)
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/generator.cpp
                            TARGET_DIRECTORY core PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
