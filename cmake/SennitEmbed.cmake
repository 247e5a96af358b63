# Rows of a C++ array: the name and the text of each file FOLDER/NAME.EXTENSION, so that no file is
# looked for at run time.
#
#   sennit_embed(SENNIT_MACHINE_ROWS catalogue machine ac922 lassen)
#   configure_file(catalogue.cpp.in ${CMAKE_CURRENT_BINARY_DIR}/catalogue.cpp @ONLY)
function(sennit_embed rows folder extension)
  set(made "")
  foreach(name IN LISTS ARGN)
    set(file ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/${name}.${extension})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} text)
    string(APPEND made "    {\"${name}\", R\"text(${text})text\"},\n")
  endforeach()
  set(${rows} "${made}" PARENT_SCOPE)
endfunction()
