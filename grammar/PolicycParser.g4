// SPDX-License-Identifier: Apache-2.0
// policyc's rule language: expressions, the statements of rule blocks, and intents.
//
// Three entries: `selection` (a whole expression, as in appliesTo), `statement` (one statement of a
// rule block) and `intent` (one statement of an intents file). Lines are put together to statements
// before (grammar/statements.py), so that a mistake in one does not hide mistakes in the next.
//
// Every choice is made by the next one or two words, so that SLL prediction always suffices; and the
// tree depends on the kinds of words alone, never on their text, so that statements of equal shape
// are parsed once (grammar/shapes.py). Keep both properties.
parser grammar PolicycParser;

options { tokenVocab = PolicycLexer; }

selection : expression EOF ;

statement : ( section | policyRule ) EOF ;

// The rules below it are of this direction, and the direction is isolated.
section : ( INGRESS | EGRESS ) COLON ;

// With both sides, one of them narrows the subject: TO in an ingress section, FROM in an egress section.
policyRule : action ( services exception? )? ( FROM peers )? ( TO peers )? modifier* ;

action : ALLOW | DENY | REJECT | PASS | LOG | AUDIT ;

modifier
    : LOG
    | LIMIT QUALIFIED ( BURST NUMBER )?     // 100/s
    | AS STRING
    ;

// ---- Intents

intent : promise EOF ;

promise
    : ( NEVER | ALWAYS ) services? ( FROM peers )? ( TO peers )? remark*
    | ONLY services? FROM peers TO peers remark*
    | ISOLATED peers FROM peers remark*
    ;

remark
    : INGRESS
    | EGRESS
    | INCLUDING BUILTIN
    | AS STRING
    | BECAUSE STRING
    ;

// ---- Services: what is asked for

services : service ( COMMA service )* ;

service
    : ANY
    | ( TCP | UDP | SCTP )
    | QUALIFIED                                           // tcp/80, tcp/8000-8100, tcp/http, tcp/any
    | ( ICMP | ICMPV6 ) ( ( WORD | NUMBER ) ( CODE NUMBER )? )?
    | PROTOCOL NUMBER
    ;

// What is taken out of all of them.
exception : EXCEPT ( service | OPEN_BRACE services CLOSE_BRACE ) ;

// ---- Peers: the other side

peers : peer ( ( COMMA | OR ) peer )* ;

peer
    : ANY
    | block
    | SERVICE QUALIFIED
    | ENTITY WORD ( WITH expression )? inside?            // host and remote-node, some of them
    | NODE expression inside?                             // the nodes themselves
    | expression inside?                                  // pods
    ;

block : ADDRESS ( EXCEPT ( ADDRESS | OPEN_BRACE ADDRESS ( COMMA ADDRESS )* CLOSE_BRACE ) )? ;

// Of those, the ones with an address in the block.
inside : IN block ;

// ---- Expressions over labels and names

expression : conjunction ( OR_OR conjunction )* ;

conjunction : term ( AND_AND term )* ;

term
    : BANG term
    | OPEN_PAREN expression CLOSE_PAREN
    | ALL
    | HAS OPEN_PAREN attribute CLOSE_PAREN
    | attribute test
    ;

attribute
    : ATTRIBUTE
    | ( POD | NS | NODE | SERVICEACCOUNT ) OPEN_BRACKET STRING CLOSE_BRACKET
    | NAMESPACE
    | NODE
    | SERVICEACCOUNT
    ;

test
    : ( EQUAL | NOT_EQUAL ) STRING
    | NOT? IN OPEN_BRACE STRING ( COMMA STRING )* CLOSE_BRACE
    | EXISTS
    | ( STARTS | ENDS ) WITH STRING
    | CONTAINS STRING
    ;
