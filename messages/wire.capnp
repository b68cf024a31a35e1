# The header before a payload: of a frame between two ranks (Header), or of a parcel between two nodes (Parcel). Each
# is one struct without pointers, in one segment.
#
# Fields are only appended. A change of a field's meaning raises `version`. Each value has exactly one encoding: a
# header has no padding, and the fields that a parcel does not use are zero. codec.cpp checks every field that has a
# bound. FORMAT.md has the meaning and the bounds of each field.
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
  bf16 @3;                     # only in frames
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
  payloadVersion @9 :UInt32;   # of the data that the payload was encoded with (low-rank factors), or 0
  epoch @10 :UInt64;
  number @11 :UInt64;          # of the exchange on this edge, or of the round
  count @12 :UInt64;           # elements of the payload, which follows the header; 0: no payload
  alphaTilde @13 :Float64;     # offer, accept, data: the sender's alpha~ of this exchange; both ends apply the smaller
  bound @14 :Float32;          # data, message: the largest distance of the two vectors that the sender accepts whole
  allowance @15 :Float32;      # data, message: the part of a larger difference that may be applied
}

enum Way {
  up @0;
  down @1;
}

struct Parcel {
  version @0 :UInt16;          # 2
  dtype @1 :ElementType;       # of the payload
  count @2 :UInt64;            # elements of the payload, which follows the header: at least 1
  union {
    meanPiece :group {         # of a mean over ranks
      way @3 :Way;             # up: a sum, in fp64 or packed; down: the mean
      vector @4 :UInt32;       # index of the averaged vector
      mean @5 :UInt64;         # the mean's number
      offset @6 :UInt64;       # of the first element, in that vector
      ranks @7 :UInt32;        # number of ranks in the sum or the mean; 0: all have diverged
    }
    statePiece :group {        # of a snapshot of one rank's state
      piece @8 :UInt32;        # index of the piece
      transfer @9 :UInt64;     # the transfer's number, chosen by the requester
    }
  }
  spare1 @10 :UInt64;          # zero
  spare2 @11 :UInt64;
  spare3 @12 :UInt64;
  spare4 @13 :UInt64;
}
