# Writes version.h if the commit has changed. Runs at every build: cmake -DSOURCE=... -DOUTPUT=... -P version.cmake
execute_process(COMMAND git describe --always --dirty --abbrev=12 WORKING_DIRECTORY ${SOURCE}
                OUTPUT_VARIABLE LAGOON_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT LAGOON_COMMIT)
  set(LAGOON_COMMIT unknown)
endif()
configure_file(${SOURCE}/apps/version.h.in ${OUTPUT} @ONLY)
