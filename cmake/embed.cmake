# Writes a C++ file that contains the texts of other files. Usage:
#   cmake -DOUTPUT=FILE -DROOT=FOLDER -DHEADER=NAME -DFUNCTION=NAME -DFILES=A|B [-DNAMESPACE=NAME -DTYPE=NAME] -P embed.cmake
# FILES are paths relative to ROOT/src, or to ROOT. HEADER declares FUNCTION, which returns the files as
# NAMESPACE::TYPE; lagoon::cuda::SourceFile unless others are given.

if(NOT NAMESPACE)
  set(NAMESPACE lagoon::cuda)
  set(TYPE SourceFile)
endif()

string(REPLACE "|" ";" FILES "${FILES}")
file(WRITE ${OUTPUT}.part "// Made by cmake/embed.cmake.\n#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n\n"
     "std::vector<${TYPE}> ${FUNCTION}() {\n  return {\n")
foreach(name IN LISTS FILES)
  if(EXISTS ${ROOT}/src/${name})
    file(READ ${ROOT}/src/${name} text)
  else()
    file(READ ${ROOT}/${name} text)
  endif()
  file(APPEND ${OUTPUT}.part "{\"${name}\", R\"lagoon(" "${text}" ")lagoon\"},\n")
endforeach()
file(APPEND ${OUTPUT}.part "  };\n}\n\n}  // namespace ${NAMESPACE}\n")
file(RENAME ${OUTPUT}.part ${OUTPUT})
