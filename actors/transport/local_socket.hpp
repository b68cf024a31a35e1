// Local sockets: connect the processes of one user on one machine: consoles, nodes and payloads
// that are read in place.
//
// The kernel tells the user of a peer (SO_PEERCRED): only the same user and root are accepted and
// dialled. A socket without a given path is in a folder of the user with mode 0700:
// $XDG_RUNTIME_DIR/grapevine, or /tmp/grapevine-UID if that variable names no folder, one that is
// not writable, or one whose path is too long for a socket's address. Unix sockets can pass
// descriptors; TCP cannot.
#pragma once
#include <string>
#include <vector>

#include "actors/transport/sockets.hpp"

namespace grapevine {

/// Whether the other end belongs to our user or root. True for other kinds of sockets.
bool is_of_this_user(int fd);

/// The folder, which is made if it is missing. Refuses one that belongs to another user, is open to
/// others or is no folder.
Result<std::string> local_folder();

/// A node's name as part of a file's name: a slash becomes a dash, and the end of a long name a
/// hash.
std::string local_name(const std::string& name);

/// Removes a socket, but no other file. False: it is still there, or never was.
bool remove_socket(const std::string& path);

/// Listens on FOLDER/NAME.PID.sock, with local_name(). Removes the sockets of dead processes first.
/// The path appears only when the socket listens.
Result<Listening> listen_locally(const std::string& name);

/// Listens on a path. Replaces a socket that no process serves. Refuses, in one line, a file that
/// is no socket, and a path of more than 107 bytes, which no socket address can hold.
Result<Listening> listen_on_path(const std::string& path);

/// The address, "unix:PATH", of the node with this name that listens locally. Refuses a name that
/// no node has (and lists the present ones), and one that several nodes have.
Result<std::string> find_local(const std::string& name);

/// Listens on a name in the (abstract) space of the network namespace: no file, and gone with the
/// process.
Result<Listening> listen_on_name(const std::string& name);
std::string random_name();
/// Whether random_name() could have made this name, which comes in a message.
bool is_random_name(const std::string& name);

/// A connection to such a name, non-blocking; -1 if no process of this user listens there.
int connect_to_name(const std::string& name);

}  // namespace grapevine
