# The messages of two nodes on their control link, and of a console and a node. Each message is one Control in the
# standard stream framing, of at most 64 KiB.
#
# Fields and members of unions are only appended. A change of a field's meaning raises Hello.version. Reserved fields
# are neither written nor read. control_decode.cpp checks lengths and enumerants before it copies anything;
# control_validate.cpp checks every message at its sender and at its receiver. control.hpp describes the values and
# has the bounds; FORMAT.md shows how a script uses this schema.
@0xb3f5d1a9c7e24806;

using Cxx = import "/capnp/c++.capnp";
using Wire = import "/messages/wire.capnp";
$Cxx.namespace("grapevine::wire");

struct Control {
  union {
    hello @0 :Hello;               # the first message in each direction
    refusal @1 :Text;              # the last message, if the sender closes the link because of an error: the reason
    bye @2 :Void;                  # the last message of a regular end
    reserved @3 :Void;             # formerly agree, without a proof
    bulkToken @4 :BulkToken;
    frame @5 :Data;                # a frame without a payload: the 88 bytes of a Header (wire.capnp)
    membership @6 :Membership;
    fetch @7 :Fetch;
    manifest @8 :Manifest;
    consoleRequest @9 :ConsoleRequest;
    consoleReply @10 :ConsoleReply;
    meanAsk @11 :MeanAsk;
    reserved2 @12 :Void;           # formerly the acknowledgement of push-sum mass
    ncclTalk @13 :NcclTalk;
    agree @14 :Data;               # selects this connection among all between this pair of nodes: a signature of 64
                                   # bytes, which proves the sender's key (link_bytes in facts.hpp)
  }
}

enum Purpose {
  control @0;
  console @1;
}

struct Hello {
  version @0 :UInt16;              # 6 between nodes; a console sends 3 or 2, and the node answers with the same number
  purpose @1 :Purpose;
  incarnation @2 :UInt32;          # grows with each start of the node; 0 for a console
  job @3 :UInt64;                  # hash of the method, layout and dtype, equal at both ends; 0 for a console
  run @4 :Text;                    # the run's name, equal at both ends
  jobIs @5 :Text;                  # the job in words, for a refusal
  node @6 :Text;                   # the sender's name, as in its certificate
  address @7 :Text;                # "host:port", where the sender listens
  id @8 :UInt64;                   # of the sender's process: the first 8 bytes of its key; 0 for a console
  settings @9 :Text;               # lines "lr=0.1": settings that are equal at all nodes of the run
  defaults @10 :Text;              # lines of the same form, for settings that a joining node has not set itself
  key @11 :Data;                   # Ed25519 key of the sender's process: 32 bytes; empty for a console
  challenge @12 :Data;             # the other end's agree signs it: 16 bytes; empty for a console
}

struct BulkToken {
  token @0 :UInt64;                # the receiver dials a bulk link and shows this once; 0: please dial now
  encrypted @1 :Bool;              # the sender wants the bulk link encrypted
  sameHost @2 :Text;               # name of the sender's unix socket, for a node in its network namespace
}

enum State {
  alive @0;
  suspect @1;
  dead @2;
  left @3;
}

struct Member {
  incarnation @0 :UInt32;          # 1, 2, ...: grows with each start of the member
  refutations @1 :UInt32;          # in this incarnation; grows with each change of this record
  firstRank @2 :UInt32;            # the member's ranks are firstRank to firstRank + ranks - 1
  ranks @3 :UInt32;
  state @4 :State;                 # set by the member or by others; not signed
  ready @5 :Bool;                  # the member's ranks have their state and belong to the graph
  finished @6 :Bool;               # the member's workers have taken their gradients
  node @7 :Text;                   # the member's name
  address @8 :Text;                # "host:port", where the member listens
  accuser @9 :UInt32;              # of a suspect: hash of the name of the node that suspects it; not signed
  reservedId @10 :UInt64;          # formerly the id of the process
  meanNumber @11 :UInt64;          # number of the mean that the member has; 0: none
  meanHash @12 :UInt64;            # hash of that mean
  gone @13 :List(UInt64);          # per rank: rank << 32 | incarnation << 1 | lives (RankGone in control.hpp)
  unreachable @14 :List(UInt64);   # hashes of the names of nodes that the member cannot reach, ascending
  key @15 :Data;                   # Ed25519 key of the member's process, as in its hello
  signature @16 :Data;             # over all fields except state and accuser (messages/facts.cpp)
  lastWord @17 :State;             # the member's own statement: alive or left
  generation @18 :UInt32;          # of the run; a resumed run has a later one
  meansAsked @19 :UInt32;          # number of means of all ranks that the member has requested
  stops @20 :Bool;                 # the member wants the run to stop
  life @21 :UInt64;                # of the member's process: new at each start
}

struct EdgeRate {
  i @0 :UInt32;                    # the lower rank
  j @1 :UInt32;
  perSecond @2 :Float64;           # exchanges per second, 1e-9 to 1e9
}

struct RateFact {                  # the rates that a member has measured on its own edges
  owner @0 :UInt64;                # the member's id
  incarnation @1 :UInt32;          # the member's
  part @2 :UInt32;                 # a member's edges are split into parts of at most 16 edges; counted from 0
  number @3 :UInt64;               # grows with each measurement; of one part, the later (incarnation, number) counts
  rates @4 :List(EdgeRate);
  signature @5 :Data;              # over all fields, with the owner's key
}

struct WorkFact {                  # the part of the run's work that the ranks of a member have done
  owner @0 :UInt64;                # the member's id
  number @1 :UInt64;               # grows with each change; the highest counts, unless it has fewer gradients
  taken @2 :UInt64;                # gradients whose step is done, at most 2^53
  perSecond @3 :Float64;           # gradients per second at present, 0 to 1e9
  signature @4 :Data;              # over all fields, with the owner's key
  countedAt @5 :Float64;           # seconds of the owner's clock, 0 to 1e9: when `taken` was counted
}

struct Membership {
  enum Kind {
    ping @0;
    ack @1;
    pingRequest @2;                # asks the receiver to probe `target`
    nack @3;                       # `target` has not answered the sender so far
    sync @4;                       # asks for the news that the sender lacks
    syncReply @5;                  # news; also sent without a sync
  }
  kind @0 :Kind;
  sequence @1 :UInt64;             # of a probe and its answers: the probe's number; of a sync: the digest of all that
                                   # the sender knows; of a syncReply: this digest in the last packet, else 0
  graphVersion @2 :UInt64;         # the graph with the highest (graphVersion, graphNode) is used; 0: not requested
  target @3 :Text;                 # of a pingRequest, its ack and its nack: the name of the probed node
  graphNode @4 :Text;              # the node that requested the graph
  topology @5 :Text;               # the graph's spec; empty: no news of the graph
  news @6 :List(Member);
  rates @7 :List(EdgeRate);        # reserved, like the next four fields: formerly facts without a signature
  run @8 :UInt64;
  generation @9 :UInt32;
  meansWanted @10 :UInt32;
  stopping @11 :Bool;
  graphKey @12 :Data;              # key of the node that requested the graph
  graphSignature @13 :Data;        # its signature over version, node and topology
  rateFacts @14 :List(RateFact);
  workFacts @15 :List(WorkFact);
}

struct Fetch {                     # asks for a snapshot of a rank's vectors
  enum What {
    rankState @0;
    reserved @1;                   # formerly the sum over a node; refused
  }
  what @0 :What;
  rank @1 :UInt32;
  transfer @2 :UInt64;             # the transfer's number, chosen by the requester
  pieces @3 :List(UInt32);         # the requested pieces; empty: only the manifest
}

struct Manifest {                  # describes a snapshot; actors/cluster/state_pieces.cpp compares it with the rank
  transfer @0 :UInt64;             # as in the Fetch
  count @1 :UInt64;                # elements of each vector
  gradients @2 :UInt64;            # gradients that the rank has taken
  pieceBytes @3 :UInt64;           # size of each piece, except the last of a vector
  vectors @4 :UInt32;              # number of vectors, in the rule's order
  ranks @5 :UInt32;                # number of ranks in the snapshot, at least 1
  dtype @6 :Wire.ElementType;
  refused @7 :Text;                # not empty: there is no snapshot, for this reason
  hashes @8 :List(UInt64);         # xxHash64 of each piece
  numbers @9 :List(UInt64);        # the rule's counters, in the rule's order; each at most 2^53
  usualStep @10 :Float64;          # the usual length of the rank's steps, finite and at least 0
}

enum Verb {
  status @0;
  topology @1;
  reconfigure @2;
  drain @3;
  stop @4;
  inject @5;
  snapshot @6;
  events @7;
  checkpoint @8;
}

struct ConsoleRequest {
  verb @0 :Verb;
  argument @1 :Text;               # a graph's spec, or the text of a plan
  mean @2 :UInt64;                 # of a snapshot: 0 asks for a new mean and its description; a number for that mean
  offset @3 :UInt64;               # the answer starts at this byte of the mean
}

struct ConsoleReply {              # one part of an answer
  ok @0 :Bool;                     # the node has served the request; unset: text is the reason
  more @1 :Bool;                   # another part follows
  text @2 :Text;                   # JSON or a line, by the verb (FORMAT.md)
  bytes @3 :Data;                  # of a snapshot
  hash @4 :UInt64;                 # in the last part: xxHash64 of all bytes of the answer
}

struct MeanAsk {                   # asks for pieces of a mean; pieces are counted over all its vectors
  mean @0 :UInt64;                 # the mean's number
  from @1 :UInt32;                 # the first piece
  until @2 :UInt32;                # the piece after the last one; at least `from`
  down @3 :Bool;                   # set: pieces of the mean; unset: pieces of the receiver's sum
  again @4 :Bool;                  # the pieces from `from` on were requested before and have not arrived
}

struct NcclTalk {                  # about a communicator of NCCL for one GPU of each of the two nodes
  union {
    connect :group {
      id @0 :Data;                 # NCCL's own 128 bytes; only their number is checked
      version @1 :UInt32;          # the sender's version of NCCL
    }
    end @2 :EndReason;             # no further payload is sent by NCCL on this link
    request :group {
      number @3 :UInt64;           # of the exchange, 1 to 2^53
      roomBytes @4 :UInt64;        # the largest payload in return; 0: none is allowed
      header @5 :Data;             # of the sender's payload: the 88 bytes of a Header (wire.capnp)
    }
    grant :group {
      number @6 :UInt64;           # of the request
      header @7 :Data;             # of the payload in return; empty: there is none
    }
    decline @8 :UInt64;            # the number of the request
  }
  edge @9 :UInt64;                 # the communicator's number, unique, chosen by the node that connects
  enum EndReason {
    unwanted @0;                   # the sender has another --link
    version @1;                    # the sender has another version of NCCL
    full @2;                       # the sender can take no communicator now
    outOfPlace @3;                 # the receiver sent a message out of order
    broken @4;                     # the sender's communicator has broken or failed to connect
  }
}
