# What stands before a payload on a wire, of a frame between two ranks or of a parcel between two nodes: one
# struct without pointers, in one segment.
#
# Fields are only ever appended, and each change of meaning raises `version`. Each value has exactly one
# encoding: a header has no padding, and what a parcel does not use is zero. FORMAT.md says what each field means.
@0xe5c1b0b7a51d7f3e;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("grapevine::wire");

enum Kind {
  offer @0;
  accept @1;
  decline @2;
  data @3;
  ack @4;
  ask @5;
  chunk @6;
  message @7;
}

enum Reason {
  none @0;
  busy @1;
  notYet @2;
  repeat @3;
  olderCaller @4;
  epoch @5;
  noBuffer @6;
  gone @7;
}

enum ElementType {
  f32 @0;
  f64 @1;
  bytes @2;
  bf16 @3;                     # of frames alone
}

struct Header {
  version @0 :UInt16;          # 2
  kind @1 :Kind;
  reason @2 :Reason;           # of a decline
  dtype @3 :ElementType;       # of the payload
  from @4 :UInt32;             # ranks
  to @5 :UInt32;
  fromIncarnation @6 :UInt32;
  toIncarnation @7 :UInt32;
  part @8 :UInt32;             # attempt of an offer, or part of a round
  payloadVersion @9 :UInt32;   # of what the payload was encoded with (low-rank factors), or 0
  epoch @10 :UInt64;
  number @11 :UInt64;          # of the exchange on this edge, or of the round
  count @12 :UInt64;           # elements of the payload, which follows the message
  alphaTilde @13 :Float64;     # the sender's, for this exchange
  bound @14 :Float32;          # data, message: how far apart the two vectors may be
  allowance @15 :Float32;      # data, message: how much of a larger difference may move
}

enum Way {
  up @0;
  down @1;
}

struct Parcel {
  version @0 :UInt16;          # 2
  dtype @1 :ElementType;       # of the payload
  count @2 :UInt64;            # elements of the payload, which follows the message: at least one
  union {
    meanPiece :group {         # of a mean over ranks
      way @3 :Way;             # up: a sum, in fp64 or packed; down: the mean itself
      vector @4 :UInt32;       # which of those that are averaged
      mean @5 :UInt64;         # its number
      offset @6 :UInt64;       # of the first element, in that vector
      ranks @7 :UInt32;        # in the sum, or in the mean
    }
    statePiece :group {        # of a snapshot of one rank's state
      piece @8 :UInt32;
      transfer @9 :UInt64;     # the asker's number
    }
  }
  spare1 @10 :UInt64;          # zero
  spare2 @11 :UInt64;
  spare3 @12 :UInt64;
  spare4 @13 :UInt64;
}
