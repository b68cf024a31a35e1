# Members that lie: the program with a patch of hostile/ each, which says what it does. The patched
# sources stand before the libraries, whose own of those are not taken then. An object of a unity
# build has other sources too and may be taken: of its functions the linker keeps the patched ones,
# and no caller has a copy, because a function of position-independent code may be replaced.
function(grapevine_hostile name)
  set(patch ${CMAKE_CURRENT_LIST_DIR}/hostile/${name}.patch)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${patch})
  file(STRINGS ${patch} heads REGEX "^\\+\\+\\+ b/")
  set(folder ${CMAKE_BINARY_DIR}/hostile/${name})
  set(patched)
  set(sources)
  foreach(head ${heads})
    string(SUBSTRING ${head} 6 -1 source)
    get_filename_component(place ${source} DIRECTORY)
    list(APPEND patched ${folder}/${source})
    list(APPEND sources ${PROJECT_SOURCE_DIR}/${source})
    list(APPEND copies COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}/${place}
      COMMAND ${CMAKE_COMMAND} -E copy ${PROJECT_SOURCE_DIR}/${source} ${folder}/${source})
  endforeach()
  add_custom_command(OUTPUT ${patched}
    ${copies} COMMAND patch --silent --directory=${folder} -p1 --input=${patch}
    DEPENDS ${patch} ${sources} VERBATIM)
  add_executable(hostile_${name} ${PROJECT_SOURCE_DIR}/app/main.cpp ${patched})
  set_target_properties(hostile_${name} PROPERTIES UNITY_BUILD OFF)
  target_link_libraries(hostile_${name} PRIVATE grapevine_app grapevine_options fmt::fmt
    CapnProto::kj-tls CapnProto::kj-async OpenSSL::SSL)
  get_target_property(unity grapevine_app UNITY_BUILD)
  if(unity)
    target_link_options(hostile_${name} PRIVATE -Wl,--allow-multiple-definition)
  endif()
  add_dependencies(node_test hostile_${name})
endfunction()

foreach(member forger grapher liar meanliar means norelease rates toctou)
  grapevine_hostile(${member})
endforeach()
