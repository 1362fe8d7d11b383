// SPDX-License-Identifier: Apache-2.0
// The words of policyc's rule language: expressions, rule blocks and intents share them.
// docs/extended-policy.md explains the language; grammar/tokens.py reads the same words faster.
lexer grammar PolicycLexer;

// Actions
ALLOW : 'allow' ;
DENY : 'deny' ;
REJECT : 'reject' ;
PASS : 'pass' ;
LOG : 'log' ;           // also a modifier
AUDIT : 'audit' ;

// Intents
NEVER : 'never' ;
ALWAYS : 'always' ;
ONLY : 'only' ;
ISOLATED : 'isolated' ;
INCLUDING : 'including' ;
BUILTIN : 'builtin' ;
BECAUSE : 'because' ;

// Structure
INGRESS : 'ingress' ;   // a section of a block, or the scope of an intent
EGRESS : 'egress' ;
FROM : 'from' ;
TO : 'to' ;
EXCEPT : 'except' ;
OR : 'or' ;
AS : 'as' ;
LIMIT : 'limit' ;
BURST : 'burst' ;

// Services
ANY : 'any' ;           // also a peer
TCP : 'tcp' ;
UDP : 'udp' ;
SCTP : 'sctp' ;
ICMP : 'icmp' ;
ICMPV6 : 'icmpv6' ;
PROTOCOL : 'protocol' ;
CODE : 'code' ;

// Peers and expressions
SERVICE : 'service' ;
ENTITY : 'entity' ;
NODE : 'node' ;
POD : 'pod' ;
NS : 'ns' ;
NAMESPACE : 'namespace' ;
SERVICEACCOUNT : 'serviceaccount' ;
ALL : 'all' ;
HAS : 'has' ;
EXISTS : 'exists' ;
IN : 'in' ;
NOT : 'not' ;
STARTS : 'starts' ;
ENDS : 'ends' ;
WITH : 'with' ;
CONTAINS : 'contains' ;

AND_AND : '&&' ;
OR_OR : '||' ;
EQUAL : '==' ;
NOT_EQUAL : '!=' ;
BANG : '!' ;
COMMA : ',' ;
COLON : ':' ;
OPEN_PAREN : '(' ;
CLOSE_PAREN : ')' ;
OPEN_BRACE : '{' ;
CLOSE_BRACE : '}' ;
OPEN_BRACKET : '[' ;
CLOSE_BRACKET : ']' ;

// "..." or '...' on one line; a backslash stands before a quote or a backslash.
STRING : '"' ( ~["\\\r\n] | '\\' ["'\\] )* '"' | '\'' ( ~['\\\r\n] | '\\' ["'\\] )* '\'' ;

// A label by its name: pod.app, ns.env, node.zone, pod.app.kubernetes.io/name.
ATTRIBUTE : [A-Za-z] [A-Za-z0-9_-]* '.' [A-Za-z0-9_./-]* ;

// Addresses and CIDRs, roughly; what is wrong with one is said with the address in hand.
ADDRESS
    : [0-9]+ '.' [0-9A-Za-z.]* ( '/' [0-9A-Za-z]* )?
    | [0-9A-Fa-f]* ':' [0-9A-Fa-f]* ':' [0-9A-Fa-f:.]* ( '/' [0-9A-Za-z]* )?
    ;

// Two names with a slash: tcp/8443, tcp/8000-8100, tcp/http, kube-system/kube-dns, 100/s.
QUALIFIED : [A-Za-z0-9] [A-Za-z0-9_-]* '/' [A-Za-z0-9_-]* ;

NUMBER : [0-9]+ ;

// Names of ICMP types and of entities, and every misspelt keyword.
WORD : [A-Za-z] [A-Za-z0-9_-]* ;

COMMENT : '#' ~[\r\n]* -> channel(HIDDEN) ;
NEWLINE : '\r'? '\n' -> channel(HIDDEN) ;   // grammar/statements.py says which ones end a statement
SPACE : [ \t]+ -> channel(HIDDEN) ;
STRAY : . ;
