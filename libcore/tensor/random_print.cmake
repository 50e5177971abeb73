# Random numbers and printing.
target_sources(core PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/generator.cpp
  ${CMAKE_CURRENT_LIST_DIR}/print.cpp
  ${CMAKE_CURRENT_LIST_DIR}/print_format.cpp
  ${CMAKE_CURRENT_LIST_DIR}/print_number.cpp
  ${CMAKE_CURRENT_LIST_DIR}/random.cpp
  ${CMAKE_CURRENT_LIST_DIR}/random_fill.cpp
  ${CMAKE_CURRENT_LIST_DIR}/random_on_device.cpp
  ${CMAKE_CURRENT_LIST_DIR}/random_truncated.cpp)
