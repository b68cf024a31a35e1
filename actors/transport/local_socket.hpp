// Local sockets: connect the processes of one user on one machine: consoles, nodes and payloads
// that are read in place.
//
// The kernel tells the user of a peer (SO_PEERCRED): only the same user and root are accepted, and
// only they are dialled. Sockets with a path are in a folder of the user, mode 0700, unless a path
// was given: $XDG_RUNTIME_DIR/grapevine, or /tmp/grapevine-UID if that variable names no folder,
// one that is not writable, or one whose path is too long for a socket's address. Unix sockets can
// pass descriptors; TCP cannot.
#pragma once
#include <string>
#include <vector>

#include "actors/transport/sockets.hpp"

namespace grapevine {

/// Whether the same user as ours, or root, is at the other end. True for other kinds of sockets.
bool is_of_this_user(int fd);

/// The folder, made where it is not there. Refuses one that is another user's, open to others or no
/// folder.
Result<std::string> local_folder();

/// A node's name as part of a file's: a slash becomes a dash, and of a long one the end a hash.
std::string local_name(const std::string& name);

/// Removes a socket, and nothing that is none. False: it is still there, or never was.
bool remove_socket(const std::string& path);

/// On FOLDER/NAME.PID.sock, by local_name(). Sockets of dead processes are removed first. The path
/// appears when the socket listens, not before.
Result<Listening> listen_locally(const std::string& name);

/// On a path. A socket that nobody serves any more is replaced. Refuses, in one line, a file that
/// is no socket, and paths of more than 107 bytes, which no socket address holds.
Result<Listening> listen_on_path(const std::string& path);

/// The address of a node that listens locally: "unix:PATH" of the one with this name. Refuses a
/// name that no node has (and lists the present ones), and one that several have.
Result<std::string> find_local(const std::string& name);

/// On a name in the network namespace's own (abstract) space: no file, gone with the process.
Result<Listening> listen_on_name(const std::string& name);
std::string random_name();
/// One that such a node made, whatever a message says.
bool is_random_name(const std::string& name);

/// A connection to such a name, non-blocking; -1 where nobody of this user listens.
int connect_to_name(const std::string& name);

}  // namespace grapevine
