# What two nodes say on their control link, and what a console says to a node: one Control a message, in
# the standard stream framing, at most 64 KiB each.
#
# Fields and members of the union are only ever appended, and each change of meaning raises Hello.version.
# control.hpp says what each means and how long it may be; FORMAT.md shows how a script speaks this.
@0xb3f5d1a9c7e24806;

using Cxx = import "/capnp/c++.capnp";
using Wire = import "/messages/wire.capnp";
$Cxx.namespace("grapevine::wire");

struct Control {
  union {
    hello @0 :Hello;               # the first message each way
    refusal @1 :Text;              # the last one: why the sender closes the link
    bye @2 :Void;                  # the last one: the sender ends the link and all is well
    reserved @3 :Void;             # was agree, without a proof
    bulkToken @4 :BulkToken;
    frame @5 :Data;                # a frame without a payload: the 88 bytes of wire.capnp
    membership @6 :Membership;
    fetch @7 :Fetch;
    manifest @8 :Manifest;
    consoleRequest @9 :ConsoleRequest;
    consoleReply @10 :ConsoleReply;
    meanAsk @11 :MeanAsk;
    reserved2 @12 :Void;           # was the receipt of push-sum mass
    ncclTalk @13 :NcclTalk;
    agree @14 :Data;               # of all connections of a pair of nodes this one shall stand: the proof
                                   # of the sender's key, 64 bytes
  }
}

enum Purpose {
  control @0;
  console @1;
}

struct Hello {
  version @0 :UInt16;              # 4; of a console, and of the answer to it: 3, or 2
  purpose @1 :Purpose;
  incarnation @2 :UInt32;                 # grows with each start of the node; 0 for a console
  job @3 :UInt64;                  # hash of method, layout and dtype; 0 for a console
  run @4 :Text;
  jobIs @5 :Text;
  node @6 :Text;                   # the sender's name, as in its certificate
  address @7 :Text;                # where the sender listens
  id @8 :UInt64;                   # of the sender's process: the first bytes of its key; 0 for a console
  settings @9 :Text;               # "lr=0.1\n...": what all nodes of the run have alike
  defaults @10 :Text;              # likewise: what a node that joins takes, where it is told nothing else
  key @11 :Data;                   # Ed25519, of the sender's process: 32 bytes; none for a console
  challenge @12 :Data;             # that the other end's agree is to sign: 16 bytes; none for a console
}

struct BulkToken {
  token @0 :UInt64;
  encrypted @1 :Bool;
  sameHost @2 :Text;
}

enum State {
  alive @0;
  suspect @1;
  dead @2;
  left @3;
}

struct Member {
  incarnation @0 :UInt32;
  refutations @1 :UInt32;
  firstRank @2 :UInt32;
  ranks @3 :UInt32;
  state @4 :State;
  ready @5 :Bool;
  finished @6 :Bool;
  node @7 :Text;
  address @8 :Text;
  accuser @9 :UInt32;              # of a suspect: hash of the name of who says so
  reservedId @10 :UInt64;          # was the id of the process
  meanNumber @11 :UInt64;          # of the mean that it has; 0: none
  meanHash @12 :UInt64;
  gone @13 :List(UInt64);          # rank << 32 | incarnation << 1 | lives: see control.hpp
  unreachable @14 :List(UInt64);   # hashes of names
  key @15 :Data;                   # Ed25519, of the process, as in its hello
  signature @16 :Data;             # of all but state and accuser: messages/facts.cpp
  lastWord @17 :State;             # its own
  generation @18 :UInt32;
  meansAsked @19 :UInt32;
  stops @20 :Bool;
  life @21 :UInt64;                # another each time that the process is started
}

struct EdgeRate {
  i @0 :UInt32;                    # the lower rank
  j @1 :UInt32;
  perSecond @2 :Float64;
}

struct RateFact {                  # what a member has measured of edges of its own
  owner @0 :UInt64;                # its id
  incarnation @1 :UInt32;
  part @2 :UInt32;                 # of its edges
  number @3 :UInt64;               # grows with each measurement: the highest counts
  rates @4 :List(EdgeRate);
  signature @5 :Data;
}

struct WorkFact {                  # how much of the run's work the ranks of a member have done
  owner @0 :UInt64;                # its id
  number @1 :UInt64;               # grows: the highest counts
  taken @2 :UInt64;                # gradients
  perSecond @3 :Float64;
  signature @4 :Data;
}

struct Membership {
  enum Kind {
    ping @0;
    ack @1;
    pingRequest @2;                # probe `target` for me
    nack @3;                       # it has not answered me yet, but I am here
    sync @4;                       # what do you know that I do not?
    syncReply @5;
  }
  kind @0 :Kind;
  sequence @1 :UInt64;             # of a sync: digest of all that the sender knows
  graphVersion @2 :UInt64;         # of two specs the one with the higher (version, node) wins
  target @3 :Text;
  graphNode @4 :Text;
  topology @5 :Text;
  news @6 :List(Member);
  rates @7 :List(EdgeRate);        # reserved, as the next four: facts that nobody signed
  run @8 :UInt64;
  generation @9 :UInt32;
  meansWanted @10 :UInt32;
  stopping @11 :Bool;
  graphKey @12 :Data;              # of who asked for the graph
  graphSignature @13 :Data;
  rateFacts @14 :List(RateFact);
  workFacts @15 :List(WorkFact);
}

struct Fetch {
  enum What {
    rankState @0;
    reserved @1;                   # was the sum over a node: nobody asks for it
  }
  what @0 :What;
  rank @1 :UInt32;
  transfer @2 :UInt64;             # the asker's number
  pieces @3 :List(UInt32);         # none: the manifest first
}

struct Manifest {
  transfer @0 :UInt64;
  count @1 :UInt64;                # elements of each vector
  gradients @2 :UInt64;
  pieceBytes @3 :UInt64;
  vectors @4 :UInt32;
  ranks @5 :UInt32;                # that are in the sum
  dtype @6 :Wire.ElementType;
  refused @7 :Text;                # not empty: why there is none
  hashes @8 :List(UInt64);         # by piece
  numbers @9 :List(UInt64);        # counters that go along, in the rule's order
  usualStep @10 :Float64;          # of the rank: the length that its steps have
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
  argument @1 :Text;
  mean @2 :UInt64;                 # of a snapshot: which one to go on with; 0: a new one, described
  offset @3 :UInt64;               # of its first byte that is wanted
}

struct ConsoleReply {              # one part of the answer
  ok @0 :Bool;
  more @1 :Bool;                   # another part follows
  text @2 :Text;                   # JSON where the request was served
  bytes @3 :Data;                  # of a snapshot
  hash @4 :UInt64;                 # in the last part: xxHash64 of all bytes of this answer
}

struct MeanAsk {                   # for pieces of a mean, counted over all its vectors
  mean @0 :UInt64;                 # its number
  from @1 :UInt32;
  until @2 :UInt32;
  down @3 :Bool;                   # of the mean itself; else of the receiver's sum
  again @4 :Bool;                  # those from `from` on have not come
}

struct NcclTalk {                  # of the communicator that a GPU of each of the two nodes may have
  union {
    connect :group {
      id @0 :Data;                 # 128 bytes
      version @1 :UInt32;          # of NCCL
    }
    end @2 :EndReason;             # nothing more goes by NCCL while this link stands
    request :group {
      number @3 :UInt64;           # of the exchange: at least 1
      roomBytes @4 :UInt64;        # for a payload that comes back; 0: none may
      header @5 :Data;             # of the payload: the 88 bytes of wire.capnp
    }
    grant :group {
      number @6 :UInt64;
      header @7 :Data;             # of the payload that comes back; no bytes: none does
    }
    decline @8 :UInt64;            # the number
  }
  edge @9 :UInt64;                 # which communicator is meant: chosen by who connects
  enum EndReason {
    unwanted @0;                   # --link is another one here
    version @1;                    # so is NCCL
    full @2;                       # no communicator more can be taken now
    outOfPlace @3;                 # what was said has no place
    broken @4;                     # the communicator is, or could not be made
  }
}
