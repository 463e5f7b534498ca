# Writes a C++ file with the texts of files: cmake -DOUTPUT=FILE -DROOT=FOLDER -DHEADER=NAME -DFUNCTION=NAME -DFILES=A|B -P embed.cmake
# FILES are named as they lie under ROOT/src, or ROOT. FUNCTION, which HEADER declares, returns them as cuda::SourceFile.

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
