# Random numbers and printing.
ckpt_test(random SOURCES ${CMAKE_CURRENT_LIST_DIR}/random_test.cpp ${CMAKE_CURRENT_LIST_DIR}/print_test.cpp LIBS core)
ckpt_golden_program(golden_runtime_rng SOURCES ${CMAKE_CURRENT_LIST_DIR}/rng_golden.cpp LIBS core)
ckpt_golden_program(golden_runtime_printing SOURCES ${CMAKE_CURRENT_LIST_DIR}/printing_golden.cpp LIBS golden_device core)
