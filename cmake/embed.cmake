# Writes a C++ file that contains the texts of other files. Usage:
#   cmake -DOUTPUT=FILE -DROOT=FOLDER -DHEADER=NAME -DFUNCTION=NAME -DFILES=A|B -P embed.cmake
# FILES are paths relative to ROOT/src, or to ROOT. HEADER declares FUNCTION, which returns the files as
# cuda::SourceFile.

string(REPLACE "|" ";" FILES "${FILES}")
file(WRITE ${OUTPUT}.part "// Made by cmake/embed.cmake.\n#include \"${HEADER}\"\n\nnamespace lagoon::cuda {\n\n"
     "std::vector<SourceFile> ${FUNCTION}() {\n  return {\n")
foreach(name IN LISTS FILES)
  if(EXISTS ${ROOT}/src/${name})
    file(READ ${ROOT}/src/${name} text)
  else()
    file(READ ${ROOT}/${name} text)
  endif()
  file(APPEND ${OUTPUT}.part "{\"${name}\", R\"lagoon(" "${text}" ")lagoon\"},\n")
endforeach()
file(APPEND ${OUTPUT}.part "  };\n}\n\n}  // namespace lagoon::cuda\n")
file(RENAME ${OUTPUT}.part ${OUTPUT})
