# SPDX-License-Identifier: Apache-2.0
# Generated from PolicycParser.g4 by ANTLR 4.13.2
# encoding: utf-8
from antlr4 import *
from io import StringIO
import sys
if sys.version_info[1] > 5:
	from typing import TextIO
else:
	from typing.io import TextIO

def serializedATN():
    return [
        4,1,69,296,2,0,7,0,2,1,7,1,2,2,7,2,2,3,7,3,2,4,7,4,2,5,7,5,2,6,7,
        6,2,7,7,7,2,8,7,8,2,9,7,9,2,10,7,10,2,11,7,11,2,12,7,12,2,13,7,13,
        2,14,7,14,2,15,7,15,2,16,7,16,2,17,7,17,2,18,7,18,2,19,7,19,2,20,
        7,20,1,0,1,0,1,0,1,1,1,1,3,1,48,8,1,1,1,1,1,1,2,1,2,1,2,1,3,1,3,
        1,3,3,3,58,8,3,3,3,60,8,3,1,3,1,3,3,3,64,8,3,1,3,1,3,3,3,68,8,3,
        1,3,5,3,71,8,3,10,3,12,3,74,9,3,1,4,1,4,1,5,1,5,1,5,1,5,1,5,3,5,
        83,8,5,1,5,1,5,3,5,87,8,5,1,6,1,6,1,6,1,7,1,7,3,7,94,8,7,1,7,1,7,
        3,7,98,8,7,1,7,1,7,3,7,102,8,7,1,7,5,7,105,8,7,10,7,12,7,108,9,7,
        1,7,1,7,3,7,112,8,7,1,7,1,7,1,7,1,7,1,7,5,7,119,8,7,10,7,12,7,122,
        9,7,1,7,1,7,1,7,1,7,1,7,5,7,129,8,7,10,7,12,7,132,9,7,3,7,134,8,
        7,1,8,1,8,1,8,1,8,1,8,1,8,1,8,1,8,3,8,144,8,8,1,9,1,9,1,9,5,9,149,
        8,9,10,9,12,9,152,9,9,1,10,1,10,1,10,1,10,1,10,1,10,1,10,3,10,161,
        8,10,3,10,163,8,10,1,10,1,10,3,10,167,8,10,1,11,1,11,1,11,1,11,1,
        11,1,11,3,11,175,8,11,1,12,1,12,1,12,5,12,180,8,12,10,12,12,12,183,
        9,12,1,13,1,13,1,13,1,13,1,13,1,13,1,13,1,13,3,13,193,8,13,1,13,
        3,13,196,8,13,1,13,1,13,1,13,3,13,201,8,13,1,13,1,13,3,13,205,8,
        13,3,13,207,8,13,1,14,1,14,1,14,1,14,1,14,1,14,1,14,5,14,216,8,14,
        10,14,12,14,219,9,14,1,14,3,14,222,8,14,3,14,224,8,14,1,15,1,15,
        1,15,1,16,1,16,1,16,5,16,232,8,16,10,16,12,16,235,9,16,1,17,1,17,
        1,17,5,17,240,8,17,10,17,12,17,243,9,17,1,18,1,18,1,18,1,18,1,18,
        1,18,1,18,1,18,1,18,1,18,1,18,1,18,1,18,1,18,1,18,3,18,260,8,18,
        1,19,1,19,1,19,1,19,1,19,1,19,1,19,1,19,3,19,270,8,19,1,20,1,20,
        1,20,3,20,275,8,20,1,20,1,20,1,20,1,20,1,20,5,20,282,8,20,10,20,
        12,20,285,9,20,1,20,1,20,1,20,1,20,1,20,1,20,1,20,3,20,294,8,20,
        1,20,0,0,21,0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,
        38,40,0,10,1,0,14,15,1,0,1,6,1,0,7,8,1,0,24,26,1,0,27,28,1,0,64,
        65,2,0,19,19,52,52,2,0,33,35,37,37,1,0,49,50,1,0,43,44,333,0,42,
        1,0,0,0,2,47,1,0,0,0,4,51,1,0,0,0,6,54,1,0,0,0,8,75,1,0,0,0,10,86,
        1,0,0,0,12,88,1,0,0,0,14,133,1,0,0,0,16,143,1,0,0,0,18,145,1,0,0,
        0,20,166,1,0,0,0,22,168,1,0,0,0,24,176,1,0,0,0,26,206,1,0,0,0,28,
        208,1,0,0,0,30,225,1,0,0,0,32,228,1,0,0,0,34,236,1,0,0,0,36,259,
        1,0,0,0,38,269,1,0,0,0,40,293,1,0,0,0,42,43,3,32,16,0,43,44,5,0,
        0,1,44,1,1,0,0,0,45,48,3,4,2,0,46,48,3,6,3,0,47,45,1,0,0,0,47,46,
        1,0,0,0,48,49,1,0,0,0,49,50,5,0,0,1,50,3,1,0,0,0,51,52,7,0,0,0,52,
        53,5,53,0,0,53,5,1,0,0,0,54,59,3,8,4,0,55,57,3,18,9,0,56,58,3,22,
        11,0,57,56,1,0,0,0,57,58,1,0,0,0,58,60,1,0,0,0,59,55,1,0,0,0,59,
        60,1,0,0,0,60,63,1,0,0,0,61,62,5,16,0,0,62,64,3,24,12,0,63,61,1,
        0,0,0,63,64,1,0,0,0,64,67,1,0,0,0,65,66,5,17,0,0,66,68,3,24,12,0,
        67,65,1,0,0,0,67,68,1,0,0,0,68,72,1,0,0,0,69,71,3,10,5,0,70,69,1,
        0,0,0,71,74,1,0,0,0,72,70,1,0,0,0,72,73,1,0,0,0,73,7,1,0,0,0,74,
        72,1,0,0,0,75,76,7,1,0,0,76,9,1,0,0,0,77,87,5,5,0,0,78,79,5,21,0,
        0,79,82,5,63,0,0,80,81,5,22,0,0,81,83,5,64,0,0,82,80,1,0,0,0,82,
        83,1,0,0,0,83,87,1,0,0,0,84,85,5,20,0,0,85,87,5,60,0,0,86,77,1,0,
        0,0,86,78,1,0,0,0,86,84,1,0,0,0,87,11,1,0,0,0,88,89,3,14,7,0,89,
        90,5,0,0,1,90,13,1,0,0,0,91,93,7,2,0,0,92,94,3,18,9,0,93,92,1,0,
        0,0,93,94,1,0,0,0,94,97,1,0,0,0,95,96,5,16,0,0,96,98,3,24,12,0,97,
        95,1,0,0,0,97,98,1,0,0,0,98,101,1,0,0,0,99,100,5,17,0,0,100,102,
        3,24,12,0,101,99,1,0,0,0,101,102,1,0,0,0,102,106,1,0,0,0,103,105,
        3,16,8,0,104,103,1,0,0,0,105,108,1,0,0,0,106,104,1,0,0,0,106,107,
        1,0,0,0,107,134,1,0,0,0,108,106,1,0,0,0,109,111,5,9,0,0,110,112,
        3,18,9,0,111,110,1,0,0,0,111,112,1,0,0,0,112,113,1,0,0,0,113,114,
        5,16,0,0,114,115,3,24,12,0,115,116,5,17,0,0,116,120,3,24,12,0,117,
        119,3,16,8,0,118,117,1,0,0,0,119,122,1,0,0,0,120,118,1,0,0,0,120,
        121,1,0,0,0,121,134,1,0,0,0,122,120,1,0,0,0,123,124,5,10,0,0,124,
        125,3,24,12,0,125,126,5,16,0,0,126,130,3,24,12,0,127,129,3,16,8,
        0,128,127,1,0,0,0,129,132,1,0,0,0,130,128,1,0,0,0,130,131,1,0,0,
        0,131,134,1,0,0,0,132,130,1,0,0,0,133,91,1,0,0,0,133,109,1,0,0,0,
        133,123,1,0,0,0,134,15,1,0,0,0,135,144,5,14,0,0,136,144,5,15,0,0,
        137,138,5,11,0,0,138,144,5,12,0,0,139,140,5,20,0,0,140,144,5,60,
        0,0,141,142,5,13,0,0,142,144,5,60,0,0,143,135,1,0,0,0,143,136,1,
        0,0,0,143,137,1,0,0,0,143,139,1,0,0,0,143,141,1,0,0,0,144,17,1,0,
        0,0,145,150,3,20,10,0,146,147,5,52,0,0,147,149,3,20,10,0,148,146,
        1,0,0,0,149,152,1,0,0,0,150,148,1,0,0,0,150,151,1,0,0,0,151,19,1,
        0,0,0,152,150,1,0,0,0,153,167,5,23,0,0,154,167,7,3,0,0,155,167,5,
        63,0,0,156,162,7,4,0,0,157,160,7,5,0,0,158,159,5,30,0,0,159,161,
        5,64,0,0,160,158,1,0,0,0,160,161,1,0,0,0,161,163,1,0,0,0,162,157,
        1,0,0,0,162,163,1,0,0,0,163,167,1,0,0,0,164,165,5,29,0,0,165,167,
        5,64,0,0,166,153,1,0,0,0,166,154,1,0,0,0,166,155,1,0,0,0,166,156,
        1,0,0,0,166,164,1,0,0,0,167,21,1,0,0,0,168,174,5,18,0,0,169,175,
        3,20,10,0,170,171,5,56,0,0,171,172,3,18,9,0,172,173,5,57,0,0,173,
        175,1,0,0,0,174,169,1,0,0,0,174,170,1,0,0,0,175,23,1,0,0,0,176,181,
        3,26,13,0,177,178,7,6,0,0,178,180,3,26,13,0,179,177,1,0,0,0,180,
        183,1,0,0,0,181,179,1,0,0,0,181,182,1,0,0,0,182,25,1,0,0,0,183,181,
        1,0,0,0,184,207,5,23,0,0,185,207,3,28,14,0,186,187,5,31,0,0,187,
        207,5,63,0,0,188,189,5,32,0,0,189,192,5,65,0,0,190,191,5,45,0,0,
        191,193,3,32,16,0,192,190,1,0,0,0,192,193,1,0,0,0,193,195,1,0,0,
        0,194,196,3,30,15,0,195,194,1,0,0,0,195,196,1,0,0,0,196,207,1,0,
        0,0,197,198,5,33,0,0,198,200,3,32,16,0,199,201,3,30,15,0,200,199,
        1,0,0,0,200,201,1,0,0,0,201,207,1,0,0,0,202,204,3,32,16,0,203,205,
        3,30,15,0,204,203,1,0,0,0,204,205,1,0,0,0,205,207,1,0,0,0,206,184,
        1,0,0,0,206,185,1,0,0,0,206,186,1,0,0,0,206,188,1,0,0,0,206,197,
        1,0,0,0,206,202,1,0,0,0,207,27,1,0,0,0,208,223,5,62,0,0,209,221,
        5,18,0,0,210,222,5,62,0,0,211,212,5,56,0,0,212,217,5,62,0,0,213,
        214,5,52,0,0,214,216,5,62,0,0,215,213,1,0,0,0,216,219,1,0,0,0,217,
        215,1,0,0,0,217,218,1,0,0,0,218,220,1,0,0,0,219,217,1,0,0,0,220,
        222,5,57,0,0,221,210,1,0,0,0,221,211,1,0,0,0,222,224,1,0,0,0,223,
        209,1,0,0,0,223,224,1,0,0,0,224,29,1,0,0,0,225,226,5,41,0,0,226,
        227,3,28,14,0,227,31,1,0,0,0,228,233,3,34,17,0,229,230,5,48,0,0,
        230,232,3,34,17,0,231,229,1,0,0,0,232,235,1,0,0,0,233,231,1,0,0,
        0,233,234,1,0,0,0,234,33,1,0,0,0,235,233,1,0,0,0,236,241,3,36,18,
        0,237,238,5,47,0,0,238,240,3,36,18,0,239,237,1,0,0,0,240,243,1,0,
        0,0,241,239,1,0,0,0,241,242,1,0,0,0,242,35,1,0,0,0,243,241,1,0,0,
        0,244,245,5,51,0,0,245,260,3,36,18,0,246,247,5,54,0,0,247,248,3,
        32,16,0,248,249,5,55,0,0,249,260,1,0,0,0,250,260,5,38,0,0,251,252,
        5,39,0,0,252,253,5,54,0,0,253,254,3,38,19,0,254,255,5,55,0,0,255,
        260,1,0,0,0,256,257,3,38,19,0,257,258,3,40,20,0,258,260,1,0,0,0,
        259,244,1,0,0,0,259,246,1,0,0,0,259,250,1,0,0,0,259,251,1,0,0,0,
        259,256,1,0,0,0,260,37,1,0,0,0,261,270,5,61,0,0,262,263,7,7,0,0,
        263,264,5,58,0,0,264,265,5,60,0,0,265,270,5,59,0,0,266,270,5,36,
        0,0,267,270,5,33,0,0,268,270,5,37,0,0,269,261,1,0,0,0,269,262,1,
        0,0,0,269,266,1,0,0,0,269,267,1,0,0,0,269,268,1,0,0,0,270,39,1,0,
        0,0,271,272,7,8,0,0,272,294,5,60,0,0,273,275,5,42,0,0,274,273,1,
        0,0,0,274,275,1,0,0,0,275,276,1,0,0,0,276,277,5,41,0,0,277,278,5,
        56,0,0,278,283,5,60,0,0,279,280,5,52,0,0,280,282,5,60,0,0,281,279,
        1,0,0,0,282,285,1,0,0,0,283,281,1,0,0,0,283,284,1,0,0,0,284,286,
        1,0,0,0,285,283,1,0,0,0,286,294,5,57,0,0,287,294,5,40,0,0,288,289,
        7,9,0,0,289,290,5,45,0,0,290,294,5,60,0,0,291,292,5,46,0,0,292,294,
        5,60,0,0,293,271,1,0,0,0,293,274,1,0,0,0,293,287,1,0,0,0,293,288,
        1,0,0,0,293,291,1,0,0,0,294,41,1,0,0,0,38,47,57,59,63,67,72,82,86,
        93,97,101,106,111,120,130,133,143,150,160,162,166,174,181,192,195,
        200,204,206,217,221,223,233,241,259,269,274,283,293
    ]

class PolicycParser ( Parser ):

    grammarFileName = "PolicycParser.g4"

    atn = ATNDeserializer().deserialize(serializedATN())

    decisionsToDFA = [ DFA(ds, i) for i, ds in enumerate(atn.decisionToState) ]

    sharedContextCache = PredictionContextCache()

    literalNames = [ "<INVALID>", "'allow'", "'deny'", "'reject'", "'pass'", 
                     "'log'", "'audit'", "'never'", "'always'", "'only'", 
                     "'isolated'", "'including'", "'builtin'", "'because'", 
                     "'ingress'", "'egress'", "'from'", "'to'", "'except'", 
                     "'or'", "'as'", "'limit'", "'burst'", "'any'", "'tcp'", 
                     "'udp'", "'sctp'", "'icmp'", "'icmpv6'", "'protocol'", 
                     "'code'", "'service'", "'entity'", "'node'", "'pod'", 
                     "'ns'", "'namespace'", "'serviceaccount'", "'all'", 
                     "'has'", "'exists'", "'in'", "'not'", "'starts'", "'ends'", 
                     "'with'", "'contains'", "'&&'", "'||'", "'=='", "'!='", 
                     "'!'", "','", "':'", "'('", "')'", "'{'", "'}'", "'['", 
                     "']'" ]

    symbolicNames = [ "<INVALID>", "ALLOW", "DENY", "REJECT", "PASS", "LOG", 
                      "AUDIT", "NEVER", "ALWAYS", "ONLY", "ISOLATED", "INCLUDING", 
                      "BUILTIN", "BECAUSE", "INGRESS", "EGRESS", "FROM", 
                      "TO", "EXCEPT", "OR", "AS", "LIMIT", "BURST", "ANY", 
                      "TCP", "UDP", "SCTP", "ICMP", "ICMPV6", "PROTOCOL", 
                      "CODE", "SERVICE", "ENTITY", "NODE", "POD", "NS", 
                      "NAMESPACE", "SERVICEACCOUNT", "ALL", "HAS", "EXISTS", 
                      "IN", "NOT", "STARTS", "ENDS", "WITH", "CONTAINS", 
                      "AND_AND", "OR_OR", "EQUAL", "NOT_EQUAL", "BANG", 
                      "COMMA", "COLON", "OPEN_PAREN", "CLOSE_PAREN", "OPEN_BRACE", 
                      "CLOSE_BRACE", "OPEN_BRACKET", "CLOSE_BRACKET", "STRING", 
                      "ATTRIBUTE", "ADDRESS", "QUALIFIED", "NUMBER", "WORD", 
                      "COMMENT", "NEWLINE", "SPACE", "STRAY" ]

    RULE_selection = 0
    RULE_statement = 1
    RULE_section = 2
    RULE_policyRule = 3
    RULE_action = 4
    RULE_modifier = 5
    RULE_intent = 6
    RULE_promise = 7
    RULE_remark = 8
    RULE_services = 9
    RULE_service = 10
    RULE_exception = 11
    RULE_peers = 12
    RULE_peer = 13
    RULE_block = 14
    RULE_inside = 15
    RULE_expression = 16
    RULE_conjunction = 17
    RULE_term = 18
    RULE_attribute = 19
    RULE_test = 20

    ruleNames =  [ "selection", "statement", "section", "policyRule", "action", 
                   "modifier", "intent", "promise", "remark", "services", 
                   "service", "exception", "peers", "peer", "block", "inside", 
                   "expression", "conjunction", "term", "attribute", "test" ]

    EOF = Token.EOF
    ALLOW=1
    DENY=2
    REJECT=3
    PASS=4
    LOG=5
    AUDIT=6
    NEVER=7
    ALWAYS=8
    ONLY=9
    ISOLATED=10
    INCLUDING=11
    BUILTIN=12
    BECAUSE=13
    INGRESS=14
    EGRESS=15
    FROM=16
    TO=17
    EXCEPT=18
    OR=19
    AS=20
    LIMIT=21
    BURST=22
    ANY=23
    TCP=24
    UDP=25
    SCTP=26
    ICMP=27
    ICMPV6=28
    PROTOCOL=29
    CODE=30
    SERVICE=31
    ENTITY=32
    NODE=33
    POD=34
    NS=35
    NAMESPACE=36
    SERVICEACCOUNT=37
    ALL=38
    HAS=39
    EXISTS=40
    IN=41
    NOT=42
    STARTS=43
    ENDS=44
    WITH=45
    CONTAINS=46
    AND_AND=47
    OR_OR=48
    EQUAL=49
    NOT_EQUAL=50
    BANG=51
    COMMA=52
    COLON=53
    OPEN_PAREN=54
    CLOSE_PAREN=55
    OPEN_BRACE=56
    CLOSE_BRACE=57
    OPEN_BRACKET=58
    CLOSE_BRACKET=59
    STRING=60
    ATTRIBUTE=61
    ADDRESS=62
    QUALIFIED=63
    NUMBER=64
    WORD=65
    COMMENT=66
    NEWLINE=67
    SPACE=68
    STRAY=69

    def __init__(self, input:TokenStream, output:TextIO = sys.stdout):
        super().__init__(input, output)
        self.checkVersion("4.13.2")
        self._interp = ParserATNSimulator(self, self.atn, self.decisionsToDFA, self.sharedContextCache)
        self._predicates = None




    class SelectionContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser

        def expression(self):
            return self.getTypedRuleContext(PolicycParser.ExpressionContext,0)


        def EOF(self):
            return self.getToken(PolicycParser.EOF, 0)

        def getRuleIndex(self):
            return PolicycParser.RULE_selection




    def selection(self):

        localctx = PolicycParser.SelectionContext(self, self._ctx, self.state)
        self.enterRule(localctx, 0, self.RULE_selection)
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 42
            self.expression()
            self.state = 43
            self.match(PolicycParser.EOF)
        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class StatementContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser

        def EOF(self):
            return self.getToken(PolicycParser.EOF, 0)

        def section(self):
            return self.getTypedRuleContext(PolicycParser.SectionContext,0)


        def policyRule(self):
            return self.getTypedRuleContext(PolicycParser.PolicyRuleContext,0)


        def getRuleIndex(self):
            return PolicycParser.RULE_statement




    def statement(self):

        localctx = PolicycParser.StatementContext(self, self._ctx, self.state)
        self.enterRule(localctx, 2, self.RULE_statement)
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 47
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [14, 15]:
                self.state = 45
                self.section()
                pass
            elif token in [1, 2, 3, 4, 5, 6]:
                self.state = 46
                self.policyRule()
                pass
            else:
                raise NoViableAltException(self)

            self.state = 49
            self.match(PolicycParser.EOF)
        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class SectionContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser

        def COLON(self):
            return self.getToken(PolicycParser.COLON, 0)

        def INGRESS(self):
            return self.getToken(PolicycParser.INGRESS, 0)

        def EGRESS(self):
            return self.getToken(PolicycParser.EGRESS, 0)

        def getRuleIndex(self):
            return PolicycParser.RULE_section




    def section(self):

        localctx = PolicycParser.SectionContext(self, self._ctx, self.state)
        self.enterRule(localctx, 4, self.RULE_section)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 51
            _la = self._input.LA(1)
            if not(_la==14 or _la==15):
                self._errHandler.recoverInline(self)
            else:
                self._errHandler.reportMatch(self)
                self.consume()
            self.state = 52
            self.match(PolicycParser.COLON)
        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class PolicyRuleContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser

        def action(self):
            return self.getTypedRuleContext(PolicycParser.ActionContext,0)


        def services(self):
            return self.getTypedRuleContext(PolicycParser.ServicesContext,0)


        def FROM(self):
            return self.getToken(PolicycParser.FROM, 0)

        def peers(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(PolicycParser.PeersContext)
            else:
                return self.getTypedRuleContext(PolicycParser.PeersContext,i)


        def TO(self):
            return self.getToken(PolicycParser.TO, 0)

        def modifier(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(PolicycParser.ModifierContext)
            else:
                return self.getTypedRuleContext(PolicycParser.ModifierContext,i)


        def exception(self):
            return self.getTypedRuleContext(PolicycParser.ExceptionContext,0)


        def getRuleIndex(self):
            return PolicycParser.RULE_policyRule




    def policyRule(self):

        localctx = PolicycParser.PolicyRuleContext(self, self._ctx, self.state)
        self.enterRule(localctx, 6, self.RULE_policyRule)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 54
            self.action()
            self.state = 59
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if (((_la) & ~0x3f) == 0 and ((1 << _la) & -9223372035789422592) != 0):
                self.state = 55
                self.services()
                self.state = 57
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==18:
                    self.state = 56
                    self.exception()




            self.state = 63
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==16:
                self.state = 61
                self.match(PolicycParser.FROM)
                self.state = 62
                self.peers()


            self.state = 67
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==17:
                self.state = 65
                self.match(PolicycParser.TO)
                self.state = 66
                self.peers()


            self.state = 72
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while (((_la) & ~0x3f) == 0 and ((1 << _la) & 3145760) != 0):
                self.state = 69
                self.modifier()
                self.state = 74
                self._errHandler.sync(self)
                _la = self._input.LA(1)

        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class ActionContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser

        def ALLOW(self):
            return self.getToken(PolicycParser.ALLOW, 0)

        def DENY(self):
            return self.getToken(PolicycParser.DENY, 0)

        def REJECT(self):
            return self.getToken(PolicycParser.REJECT, 0)

        def PASS(self):
            return self.getToken(PolicycParser.PASS, 0)

        def LOG(self):
            return self.getToken(PolicycParser.LOG, 0)

        def AUDIT(self):
            return self.getToken(PolicycParser.AUDIT, 0)

        def getRuleIndex(self):
            return PolicycParser.RULE_action




    def action(self):

        localctx = PolicycParser.ActionContext(self, self._ctx, self.state)
        self.enterRule(localctx, 8, self.RULE_action)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 75
            _la = self._input.LA(1)
            if not((((_la) & ~0x3f) == 0 and ((1 << _la) & 126) != 0)):
                self._errHandler.recoverInline(self)
            else:
                self._errHandler.reportMatch(self)
                self.consume()
        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class ModifierContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser

        def LOG(self):
            return self.getToken(PolicycParser.LOG, 0)

        def LIMIT(self):
            return self.getToken(PolicycParser.LIMIT, 0)

        def QUALIFIED(self):
            return self.getToken(PolicycParser.QUALIFIED, 0)

        def BURST(self):
            return self.getToken(PolicycParser.BURST, 0)

        def NUMBER(self):
            return self.getToken(PolicycParser.NUMBER, 0)

        def AS(self):
            return self.getToken(PolicycParser.AS, 0)

        def STRING(self):
            return self.getToken(PolicycParser.STRING, 0)

        def getRuleIndex(self):
            return PolicycParser.RULE_modifier




    def modifier(self):

        localctx = PolicycParser.ModifierContext(self, self._ctx, self.state)
        self.enterRule(localctx, 10, self.RULE_modifier)
        self._la = 0 # Token type
        try:
            self.state = 86
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [5]:
                self.enterOuterAlt(localctx, 1)
                self.state = 77
                self.match(PolicycParser.LOG)
                pass
            elif token in [21]:
                self.enterOuterAlt(localctx, 2)
                self.state = 78
                self.match(PolicycParser.LIMIT)
                self.state = 79
                self.match(PolicycParser.QUALIFIED)
                self.state = 82
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==22:
                    self.state = 80
                    self.match(PolicycParser.BURST)
                    self.state = 81
                    self.match(PolicycParser.NUMBER)


                pass
            elif token in [20]:
                self.enterOuterAlt(localctx, 3)
                self.state = 84
                self.match(PolicycParser.AS)
                self.state = 85
                self.match(PolicycParser.STRING)
                pass
            else:
                raise NoViableAltException(self)

        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class IntentContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser

        def promise(self):
            return self.getTypedRuleContext(PolicycParser.PromiseContext,0)


        def EOF(self):
            return self.getToken(PolicycParser.EOF, 0)

        def getRuleIndex(self):
            return PolicycParser.RULE_intent




    def intent(self):

        localctx = PolicycParser.IntentContext(self, self._ctx, self.state)
        self.enterRule(localctx, 12, self.RULE_intent)
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 88
            self.promise()
            self.state = 89
            self.match(PolicycParser.EOF)
        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class PromiseContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser

        def NEVER(self):
            return self.getToken(PolicycParser.NEVER, 0)

        def ALWAYS(self):
            return self.getToken(PolicycParser.ALWAYS, 0)

        def services(self):
            return self.getTypedRuleContext(PolicycParser.ServicesContext,0)


        def FROM(self):
            return self.getToken(PolicycParser.FROM, 0)

        def peers(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(PolicycParser.PeersContext)
            else:
                return self.getTypedRuleContext(PolicycParser.PeersContext,i)


        def TO(self):
            return self.getToken(PolicycParser.TO, 0)

        def remark(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(PolicycParser.RemarkContext)
            else:
                return self.getTypedRuleContext(PolicycParser.RemarkContext,i)


        def ONLY(self):
            return self.getToken(PolicycParser.ONLY, 0)

        def ISOLATED(self):
            return self.getToken(PolicycParser.ISOLATED, 0)

        def getRuleIndex(self):
            return PolicycParser.RULE_promise




    def promise(self):

        localctx = PolicycParser.PromiseContext(self, self._ctx, self.state)
        self.enterRule(localctx, 14, self.RULE_promise)
        self._la = 0 # Token type
        try:
            self.state = 133
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [7, 8]:
                self.enterOuterAlt(localctx, 1)
                self.state = 91
                _la = self._input.LA(1)
                if not(_la==7 or _la==8):
                    self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                self.state = 93
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if (((_la) & ~0x3f) == 0 and ((1 << _la) & -9223372035789422592) != 0):
                    self.state = 92
                    self.services()


                self.state = 97
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==16:
                    self.state = 95
                    self.match(PolicycParser.FROM)
                    self.state = 96
                    self.peers()


                self.state = 101
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==17:
                    self.state = 99
                    self.match(PolicycParser.TO)
                    self.state = 100
                    self.peers()


                self.state = 106
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                while (((_la) & ~0x3f) == 0 and ((1 << _la) & 1107968) != 0):
                    self.state = 103
                    self.remark()
                    self.state = 108
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)

                pass
            elif token in [9]:
                self.enterOuterAlt(localctx, 2)
                self.state = 109
                self.match(PolicycParser.ONLY)
                self.state = 111
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if (((_la) & ~0x3f) == 0 and ((1 << _la) & -9223372035789422592) != 0):
                    self.state = 110
                    self.services()


                self.state = 113
                self.match(PolicycParser.FROM)
                self.state = 114
                self.peers()
                self.state = 115
                self.match(PolicycParser.TO)
                self.state = 116
                self.peers()
                self.state = 120
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                while (((_la) & ~0x3f) == 0 and ((1 << _la) & 1107968) != 0):
                    self.state = 117
                    self.remark()
                    self.state = 122
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)

                pass
            elif token in [10]:
                self.enterOuterAlt(localctx, 3)
                self.state = 123
                self.match(PolicycParser.ISOLATED)
                self.state = 124
                self.peers()
                self.state = 125
                self.match(PolicycParser.FROM)
                self.state = 126
                self.peers()
                self.state = 130
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                while (((_la) & ~0x3f) == 0 and ((1 << _la) & 1107968) != 0):
                    self.state = 127
                    self.remark()
                    self.state = 132
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)

                pass
            else:
                raise NoViableAltException(self)

        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class RemarkContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser

        def INGRESS(self):
            return self.getToken(PolicycParser.INGRESS, 0)

        def EGRESS(self):
            return self.getToken(PolicycParser.EGRESS, 0)

        def INCLUDING(self):
            return self.getToken(PolicycParser.INCLUDING, 0)

        def BUILTIN(self):
            return self.getToken(PolicycParser.BUILTIN, 0)

        def AS(self):
            return self.getToken(PolicycParser.AS, 0)

        def STRING(self):
            return self.getToken(PolicycParser.STRING, 0)

        def BECAUSE(self):
            return self.getToken(PolicycParser.BECAUSE, 0)

        def getRuleIndex(self):
            return PolicycParser.RULE_remark




    def remark(self):

        localctx = PolicycParser.RemarkContext(self, self._ctx, self.state)
        self.enterRule(localctx, 16, self.RULE_remark)
        try:
            self.state = 143
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [14]:
                self.enterOuterAlt(localctx, 1)
                self.state = 135
                self.match(PolicycParser.INGRESS)
                pass
            elif token in [15]:
                self.enterOuterAlt(localctx, 2)
                self.state = 136
                self.match(PolicycParser.EGRESS)
                pass
            elif token in [11]:
                self.enterOuterAlt(localctx, 3)
                self.state = 137
                self.match(PolicycParser.INCLUDING)
                self.state = 138
                self.match(PolicycParser.BUILTIN)
                pass
            elif token in [20]:
                self.enterOuterAlt(localctx, 4)
                self.state = 139
                self.match(PolicycParser.AS)
                self.state = 140
                self.match(PolicycParser.STRING)
                pass
            elif token in [13]:
                self.enterOuterAlt(localctx, 5)
                self.state = 141
                self.match(PolicycParser.BECAUSE)
                self.state = 142
                self.match(PolicycParser.STRING)
                pass
            else:
                raise NoViableAltException(self)

        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class ServicesContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser

        def service(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(PolicycParser.ServiceContext)
            else:
                return self.getTypedRuleContext(PolicycParser.ServiceContext,i)


        def COMMA(self, i:int=None):
            if i is None:
                return self.getTokens(PolicycParser.COMMA)
            else:
                return self.getToken(PolicycParser.COMMA, i)

        def getRuleIndex(self):
            return PolicycParser.RULE_services




    def services(self):

        localctx = PolicycParser.ServicesContext(self, self._ctx, self.state)
        self.enterRule(localctx, 18, self.RULE_services)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 145
            self.service()
            self.state = 150
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==52:
                self.state = 146
                self.match(PolicycParser.COMMA)
                self.state = 147
                self.service()
                self.state = 152
                self._errHandler.sync(self)
                _la = self._input.LA(1)

        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class ServiceContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser

        def ANY(self):
            return self.getToken(PolicycParser.ANY, 0)

        def TCP(self):
            return self.getToken(PolicycParser.TCP, 0)

        def UDP(self):
            return self.getToken(PolicycParser.UDP, 0)

        def SCTP(self):
            return self.getToken(PolicycParser.SCTP, 0)

        def QUALIFIED(self):
            return self.getToken(PolicycParser.QUALIFIED, 0)

        def ICMP(self):
            return self.getToken(PolicycParser.ICMP, 0)

        def ICMPV6(self):
            return self.getToken(PolicycParser.ICMPV6, 0)

        def WORD(self):
            return self.getToken(PolicycParser.WORD, 0)

        def NUMBER(self, i:int=None):
            if i is None:
                return self.getTokens(PolicycParser.NUMBER)
            else:
                return self.getToken(PolicycParser.NUMBER, i)

        def CODE(self):
            return self.getToken(PolicycParser.CODE, 0)

        def PROTOCOL(self):
            return self.getToken(PolicycParser.PROTOCOL, 0)

        def getRuleIndex(self):
            return PolicycParser.RULE_service




    def service(self):

        localctx = PolicycParser.ServiceContext(self, self._ctx, self.state)
        self.enterRule(localctx, 20, self.RULE_service)
        self._la = 0 # Token type
        try:
            self.state = 166
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [23]:
                self.enterOuterAlt(localctx, 1)
                self.state = 153
                self.match(PolicycParser.ANY)
                pass
            elif token in [24, 25, 26]:
                self.enterOuterAlt(localctx, 2)
                self.state = 154
                _la = self._input.LA(1)
                if not((((_la) & ~0x3f) == 0 and ((1 << _la) & 117440512) != 0)):
                    self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                pass
            elif token in [63]:
                self.enterOuterAlt(localctx, 3)
                self.state = 155
                self.match(PolicycParser.QUALIFIED)
                pass
            elif token in [27, 28]:
                self.enterOuterAlt(localctx, 4)
                self.state = 156
                _la = self._input.LA(1)
                if not(_la==27 or _la==28):
                    self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                self.state = 162
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==64 or _la==65:
                    self.state = 157
                    _la = self._input.LA(1)
                    if not(_la==64 or _la==65):
                        self._errHandler.recoverInline(self)
                    else:
                        self._errHandler.reportMatch(self)
                        self.consume()
                    self.state = 160
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)
                    if _la==30:
                        self.state = 158
                        self.match(PolicycParser.CODE)
                        self.state = 159
                        self.match(PolicycParser.NUMBER)




                pass
            elif token in [29]:
                self.enterOuterAlt(localctx, 5)
                self.state = 164
                self.match(PolicycParser.PROTOCOL)
                self.state = 165
                self.match(PolicycParser.NUMBER)
                pass
            else:
                raise NoViableAltException(self)

        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class ExceptionContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser

        def EXCEPT(self):
            return self.getToken(PolicycParser.EXCEPT, 0)

        def service(self):
            return self.getTypedRuleContext(PolicycParser.ServiceContext,0)


        def OPEN_BRACE(self):
            return self.getToken(PolicycParser.OPEN_BRACE, 0)

        def services(self):
            return self.getTypedRuleContext(PolicycParser.ServicesContext,0)


        def CLOSE_BRACE(self):
            return self.getToken(PolicycParser.CLOSE_BRACE, 0)

        def getRuleIndex(self):
            return PolicycParser.RULE_exception




    def exception(self):

        localctx = PolicycParser.ExceptionContext(self, self._ctx, self.state)
        self.enterRule(localctx, 22, self.RULE_exception)
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 168
            self.match(PolicycParser.EXCEPT)
            self.state = 174
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [23, 24, 25, 26, 27, 28, 29, 63]:
                self.state = 169
                self.service()
                pass
            elif token in [56]:
                self.state = 170
                self.match(PolicycParser.OPEN_BRACE)
                self.state = 171
                self.services()
                self.state = 172
                self.match(PolicycParser.CLOSE_BRACE)
                pass
            else:
                raise NoViableAltException(self)

        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class PeersContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser

        def peer(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(PolicycParser.PeerContext)
            else:
                return self.getTypedRuleContext(PolicycParser.PeerContext,i)


        def COMMA(self, i:int=None):
            if i is None:
                return self.getTokens(PolicycParser.COMMA)
            else:
                return self.getToken(PolicycParser.COMMA, i)

        def OR(self, i:int=None):
            if i is None:
                return self.getTokens(PolicycParser.OR)
            else:
                return self.getToken(PolicycParser.OR, i)

        def getRuleIndex(self):
            return PolicycParser.RULE_peers




    def peers(self):

        localctx = PolicycParser.PeersContext(self, self._ctx, self.state)
        self.enterRule(localctx, 24, self.RULE_peers)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 176
            self.peer()
            self.state = 181
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==19 or _la==52:
                self.state = 177
                _la = self._input.LA(1)
                if not(_la==19 or _la==52):
                    self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                self.state = 178
                self.peer()
                self.state = 183
                self._errHandler.sync(self)
                _la = self._input.LA(1)

        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class PeerContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser

        def ANY(self):
            return self.getToken(PolicycParser.ANY, 0)

        def block(self):
            return self.getTypedRuleContext(PolicycParser.BlockContext,0)


        def SERVICE(self):
            return self.getToken(PolicycParser.SERVICE, 0)

        def QUALIFIED(self):
            return self.getToken(PolicycParser.QUALIFIED, 0)

        def ENTITY(self):
            return self.getToken(PolicycParser.ENTITY, 0)

        def WORD(self):
            return self.getToken(PolicycParser.WORD, 0)

        def WITH(self):
            return self.getToken(PolicycParser.WITH, 0)

        def expression(self):
            return self.getTypedRuleContext(PolicycParser.ExpressionContext,0)


        def inside(self):
            return self.getTypedRuleContext(PolicycParser.InsideContext,0)


        def NODE(self):
            return self.getToken(PolicycParser.NODE, 0)

        def getRuleIndex(self):
            return PolicycParser.RULE_peer




    def peer(self):

        localctx = PolicycParser.PeerContext(self, self._ctx, self.state)
        self.enterRule(localctx, 26, self.RULE_peer)
        self._la = 0 # Token type
        try:
            self.state = 206
            self._errHandler.sync(self)
            la_ = self._interp.adaptivePredict(self._input,27,self._ctx)
            if la_ == 1:
                self.enterOuterAlt(localctx, 1)
                self.state = 184
                self.match(PolicycParser.ANY)
                pass

            elif la_ == 2:
                self.enterOuterAlt(localctx, 2)
                self.state = 185
                self.block()
                pass

            elif la_ == 3:
                self.enterOuterAlt(localctx, 3)
                self.state = 186
                self.match(PolicycParser.SERVICE)
                self.state = 187
                self.match(PolicycParser.QUALIFIED)
                pass

            elif la_ == 4:
                self.enterOuterAlt(localctx, 4)
                self.state = 188
                self.match(PolicycParser.ENTITY)
                self.state = 189
                self.match(PolicycParser.WORD)
                self.state = 192
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==45:
                    self.state = 190
                    self.match(PolicycParser.WITH)
                    self.state = 191
                    self.expression()


                self.state = 195
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==41:
                    self.state = 194
                    self.inside()


                pass

            elif la_ == 5:
                self.enterOuterAlt(localctx, 5)
                self.state = 197
                self.match(PolicycParser.NODE)
                self.state = 198
                self.expression()
                self.state = 200
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==41:
                    self.state = 199
                    self.inside()


                pass

            elif la_ == 6:
                self.enterOuterAlt(localctx, 6)
                self.state = 202
                self.expression()
                self.state = 204
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==41:
                    self.state = 203
                    self.inside()


                pass


        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class BlockContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser

        def ADDRESS(self, i:int=None):
            if i is None:
                return self.getTokens(PolicycParser.ADDRESS)
            else:
                return self.getToken(PolicycParser.ADDRESS, i)

        def EXCEPT(self):
            return self.getToken(PolicycParser.EXCEPT, 0)

        def OPEN_BRACE(self):
            return self.getToken(PolicycParser.OPEN_BRACE, 0)

        def CLOSE_BRACE(self):
            return self.getToken(PolicycParser.CLOSE_BRACE, 0)

        def COMMA(self, i:int=None):
            if i is None:
                return self.getTokens(PolicycParser.COMMA)
            else:
                return self.getToken(PolicycParser.COMMA, i)

        def getRuleIndex(self):
            return PolicycParser.RULE_block




    def block(self):

        localctx = PolicycParser.BlockContext(self, self._ctx, self.state)
        self.enterRule(localctx, 28, self.RULE_block)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 208
            self.match(PolicycParser.ADDRESS)
            self.state = 223
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==18:
                self.state = 209
                self.match(PolicycParser.EXCEPT)
                self.state = 221
                self._errHandler.sync(self)
                token = self._input.LA(1)
                if token in [62]:
                    self.state = 210
                    self.match(PolicycParser.ADDRESS)
                    pass
                elif token in [56]:
                    self.state = 211
                    self.match(PolicycParser.OPEN_BRACE)
                    self.state = 212
                    self.match(PolicycParser.ADDRESS)
                    self.state = 217
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)
                    while _la==52:
                        self.state = 213
                        self.match(PolicycParser.COMMA)
                        self.state = 214
                        self.match(PolicycParser.ADDRESS)
                        self.state = 219
                        self._errHandler.sync(self)
                        _la = self._input.LA(1)

                    self.state = 220
                    self.match(PolicycParser.CLOSE_BRACE)
                    pass
                else:
                    raise NoViableAltException(self)



        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class InsideContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser

        def IN(self):
            return self.getToken(PolicycParser.IN, 0)

        def block(self):
            return self.getTypedRuleContext(PolicycParser.BlockContext,0)


        def getRuleIndex(self):
            return PolicycParser.RULE_inside




    def inside(self):

        localctx = PolicycParser.InsideContext(self, self._ctx, self.state)
        self.enterRule(localctx, 30, self.RULE_inside)
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 225
            self.match(PolicycParser.IN)
            self.state = 226
            self.block()
        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class ExpressionContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser

        def conjunction(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(PolicycParser.ConjunctionContext)
            else:
                return self.getTypedRuleContext(PolicycParser.ConjunctionContext,i)


        def OR_OR(self, i:int=None):
            if i is None:
                return self.getTokens(PolicycParser.OR_OR)
            else:
                return self.getToken(PolicycParser.OR_OR, i)

        def getRuleIndex(self):
            return PolicycParser.RULE_expression




    def expression(self):

        localctx = PolicycParser.ExpressionContext(self, self._ctx, self.state)
        self.enterRule(localctx, 32, self.RULE_expression)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 228
            self.conjunction()
            self.state = 233
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==48:
                self.state = 229
                self.match(PolicycParser.OR_OR)
                self.state = 230
                self.conjunction()
                self.state = 235
                self._errHandler.sync(self)
                _la = self._input.LA(1)

        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class ConjunctionContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser

        def term(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(PolicycParser.TermContext)
            else:
                return self.getTypedRuleContext(PolicycParser.TermContext,i)


        def AND_AND(self, i:int=None):
            if i is None:
                return self.getTokens(PolicycParser.AND_AND)
            else:
                return self.getToken(PolicycParser.AND_AND, i)

        def getRuleIndex(self):
            return PolicycParser.RULE_conjunction




    def conjunction(self):

        localctx = PolicycParser.ConjunctionContext(self, self._ctx, self.state)
        self.enterRule(localctx, 34, self.RULE_conjunction)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 236
            self.term()
            self.state = 241
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==47:
                self.state = 237
                self.match(PolicycParser.AND_AND)
                self.state = 238
                self.term()
                self.state = 243
                self._errHandler.sync(self)
                _la = self._input.LA(1)

        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class TermContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser

        def BANG(self):
            return self.getToken(PolicycParser.BANG, 0)

        def term(self):
            return self.getTypedRuleContext(PolicycParser.TermContext,0)


        def OPEN_PAREN(self):
            return self.getToken(PolicycParser.OPEN_PAREN, 0)

        def expression(self):
            return self.getTypedRuleContext(PolicycParser.ExpressionContext,0)


        def CLOSE_PAREN(self):
            return self.getToken(PolicycParser.CLOSE_PAREN, 0)

        def ALL(self):
            return self.getToken(PolicycParser.ALL, 0)

        def HAS(self):
            return self.getToken(PolicycParser.HAS, 0)

        def attribute(self):
            return self.getTypedRuleContext(PolicycParser.AttributeContext,0)


        def test(self):
            return self.getTypedRuleContext(PolicycParser.TestContext,0)


        def getRuleIndex(self):
            return PolicycParser.RULE_term




    def term(self):

        localctx = PolicycParser.TermContext(self, self._ctx, self.state)
        self.enterRule(localctx, 36, self.RULE_term)
        try:
            self.state = 259
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [51]:
                self.enterOuterAlt(localctx, 1)
                self.state = 244
                self.match(PolicycParser.BANG)
                self.state = 245
                self.term()
                pass
            elif token in [54]:
                self.enterOuterAlt(localctx, 2)
                self.state = 246
                self.match(PolicycParser.OPEN_PAREN)
                self.state = 247
                self.expression()
                self.state = 248
                self.match(PolicycParser.CLOSE_PAREN)
                pass
            elif token in [38]:
                self.enterOuterAlt(localctx, 3)
                self.state = 250
                self.match(PolicycParser.ALL)
                pass
            elif token in [39]:
                self.enterOuterAlt(localctx, 4)
                self.state = 251
                self.match(PolicycParser.HAS)
                self.state = 252
                self.match(PolicycParser.OPEN_PAREN)
                self.state = 253
                self.attribute()
                self.state = 254
                self.match(PolicycParser.CLOSE_PAREN)
                pass
            elif token in [33, 34, 35, 36, 37, 61]:
                self.enterOuterAlt(localctx, 5)
                self.state = 256
                self.attribute()
                self.state = 257
                self.test()
                pass
            else:
                raise NoViableAltException(self)

        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class AttributeContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser

        def ATTRIBUTE(self):
            return self.getToken(PolicycParser.ATTRIBUTE, 0)

        def OPEN_BRACKET(self):
            return self.getToken(PolicycParser.OPEN_BRACKET, 0)

        def STRING(self):
            return self.getToken(PolicycParser.STRING, 0)

        def CLOSE_BRACKET(self):
            return self.getToken(PolicycParser.CLOSE_BRACKET, 0)

        def POD(self):
            return self.getToken(PolicycParser.POD, 0)

        def NS(self):
            return self.getToken(PolicycParser.NS, 0)

        def NODE(self):
            return self.getToken(PolicycParser.NODE, 0)

        def SERVICEACCOUNT(self):
            return self.getToken(PolicycParser.SERVICEACCOUNT, 0)

        def NAMESPACE(self):
            return self.getToken(PolicycParser.NAMESPACE, 0)

        def getRuleIndex(self):
            return PolicycParser.RULE_attribute




    def attribute(self):

        localctx = PolicycParser.AttributeContext(self, self._ctx, self.state)
        self.enterRule(localctx, 38, self.RULE_attribute)
        self._la = 0 # Token type
        try:
            self.state = 269
            self._errHandler.sync(self)
            la_ = self._interp.adaptivePredict(self._input,34,self._ctx)
            if la_ == 1:
                self.enterOuterAlt(localctx, 1)
                self.state = 261
                self.match(PolicycParser.ATTRIBUTE)
                pass

            elif la_ == 2:
                self.enterOuterAlt(localctx, 2)
                self.state = 262
                _la = self._input.LA(1)
                if not((((_la) & ~0x3f) == 0 and ((1 << _la) & 197568495616) != 0)):
                    self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                self.state = 263
                self.match(PolicycParser.OPEN_BRACKET)
                self.state = 264
                self.match(PolicycParser.STRING)
                self.state = 265
                self.match(PolicycParser.CLOSE_BRACKET)
                pass

            elif la_ == 3:
                self.enterOuterAlt(localctx, 3)
                self.state = 266
                self.match(PolicycParser.NAMESPACE)
                pass

            elif la_ == 4:
                self.enterOuterAlt(localctx, 4)
                self.state = 267
                self.match(PolicycParser.NODE)
                pass

            elif la_ == 5:
                self.enterOuterAlt(localctx, 5)
                self.state = 268
                self.match(PolicycParser.SERVICEACCOUNT)
                pass


        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class TestContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser

        def STRING(self, i:int=None):
            if i is None:
                return self.getTokens(PolicycParser.STRING)
            else:
                return self.getToken(PolicycParser.STRING, i)

        def EQUAL(self):
            return self.getToken(PolicycParser.EQUAL, 0)

        def NOT_EQUAL(self):
            return self.getToken(PolicycParser.NOT_EQUAL, 0)

        def IN(self):
            return self.getToken(PolicycParser.IN, 0)

        def OPEN_BRACE(self):
            return self.getToken(PolicycParser.OPEN_BRACE, 0)

        def CLOSE_BRACE(self):
            return self.getToken(PolicycParser.CLOSE_BRACE, 0)

        def NOT(self):
            return self.getToken(PolicycParser.NOT, 0)

        def COMMA(self, i:int=None):
            if i is None:
                return self.getTokens(PolicycParser.COMMA)
            else:
                return self.getToken(PolicycParser.COMMA, i)

        def EXISTS(self):
            return self.getToken(PolicycParser.EXISTS, 0)

        def WITH(self):
            return self.getToken(PolicycParser.WITH, 0)

        def STARTS(self):
            return self.getToken(PolicycParser.STARTS, 0)

        def ENDS(self):
            return self.getToken(PolicycParser.ENDS, 0)

        def CONTAINS(self):
            return self.getToken(PolicycParser.CONTAINS, 0)

        def getRuleIndex(self):
            return PolicycParser.RULE_test




    def test(self):

        localctx = PolicycParser.TestContext(self, self._ctx, self.state)
        self.enterRule(localctx, 40, self.RULE_test)
        self._la = 0 # Token type
        try:
            self.state = 293
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [49, 50]:
                self.enterOuterAlt(localctx, 1)
                self.state = 271
                _la = self._input.LA(1)
                if not(_la==49 or _la==50):
                    self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                self.state = 272
                self.match(PolicycParser.STRING)
                pass
            elif token in [41, 42]:
                self.enterOuterAlt(localctx, 2)
                self.state = 274
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==42:
                    self.state = 273
                    self.match(PolicycParser.NOT)


                self.state = 276
                self.match(PolicycParser.IN)
                self.state = 277
                self.match(PolicycParser.OPEN_BRACE)
                self.state = 278
                self.match(PolicycParser.STRING)
                self.state = 283
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                while _la==52:
                    self.state = 279
                    self.match(PolicycParser.COMMA)
                    self.state = 280
                    self.match(PolicycParser.STRING)
                    self.state = 285
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)

                self.state = 286
                self.match(PolicycParser.CLOSE_BRACE)
                pass
            elif token in [40]:
                self.enterOuterAlt(localctx, 3)
                self.state = 287
                self.match(PolicycParser.EXISTS)
                pass
            elif token in [43, 44]:
                self.enterOuterAlt(localctx, 4)
                self.state = 288
                _la = self._input.LA(1)
                if not(_la==43 or _la==44):
                    self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                self.state = 289
                self.match(PolicycParser.WITH)
                self.state = 290
                self.match(PolicycParser.STRING)
                pass
            elif token in [46]:
                self.enterOuterAlt(localctx, 5)
                self.state = 291
                self.match(PolicycParser.CONTAINS)
                self.state = 292
                self.match(PolicycParser.STRING)
                pass
            else:
                raise NoViableAltException(self)

        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx





