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
        4,1,69,258,2,0,7,0,2,1,7,1,2,2,7,2,2,3,7,3,2,4,7,4,2,5,7,5,2,6,7,
        6,2,7,7,7,2,8,7,8,2,9,7,9,2,10,7,10,2,11,7,11,2,12,7,12,2,13,7,13,
        2,14,7,14,2,15,7,15,2,16,7,16,2,17,7,17,1,0,1,0,1,0,1,1,1,1,3,1,
        42,8,1,1,1,1,1,1,2,1,2,1,2,1,3,1,3,3,3,51,8,3,1,3,1,3,3,3,55,8,3,
        1,3,5,3,58,8,3,10,3,12,3,61,9,3,1,4,1,4,1,5,1,5,1,5,1,5,1,5,3,5,
        70,8,5,1,5,1,5,3,5,74,8,5,1,6,1,6,1,6,1,7,1,7,3,7,81,8,7,1,7,1,7,
        3,7,85,8,7,1,7,1,7,3,7,89,8,7,1,7,5,7,92,8,7,10,7,12,7,95,9,7,1,
        7,1,7,3,7,99,8,7,1,7,1,7,1,7,1,7,1,7,5,7,106,8,7,10,7,12,7,109,9,
        7,1,7,1,7,1,7,1,7,1,7,5,7,116,8,7,10,7,12,7,119,9,7,3,7,121,8,7,
        1,8,1,8,1,8,1,8,1,8,1,8,1,8,1,8,3,8,131,8,8,1,9,1,9,1,9,5,9,136,
        8,9,10,9,12,9,139,9,9,1,10,1,10,1,10,1,10,1,10,1,10,1,10,3,10,148,
        8,10,3,10,150,8,10,1,10,1,10,3,10,154,8,10,1,11,1,11,1,11,5,11,159,
        8,11,10,11,12,11,162,9,11,1,12,1,12,1,12,1,12,1,12,1,12,1,12,1,12,
        5,12,172,8,12,10,12,12,12,175,9,12,1,12,3,12,178,8,12,3,12,180,8,
        12,1,12,1,12,1,12,1,12,1,12,1,12,1,12,3,12,189,8,12,1,13,1,13,1,
        13,5,13,194,8,13,10,13,12,13,197,9,13,1,14,1,14,1,14,5,14,202,8,
        14,10,14,12,14,205,9,14,1,15,1,15,1,15,1,15,1,15,1,15,1,15,1,15,
        1,15,1,15,1,15,1,15,1,15,1,15,1,15,3,15,222,8,15,1,16,1,16,1,16,
        1,16,1,16,1,16,1,16,1,16,3,16,232,8,16,1,17,1,17,1,17,3,17,237,8,
        17,1,17,1,17,1,17,1,17,1,17,5,17,244,8,17,10,17,12,17,247,9,17,1,
        17,1,17,1,17,1,17,1,17,1,17,1,17,3,17,256,8,17,1,17,0,0,18,0,2,4,
        6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,0,11,1,0,14,15,1,0,16,
        17,1,0,1,6,1,0,7,8,1,0,24,26,1,0,27,28,1,0,64,65,2,0,19,19,52,52,
        2,0,33,35,37,37,1,0,49,50,1,0,43,44,291,0,36,1,0,0,0,2,41,1,0,0,
        0,4,45,1,0,0,0,6,48,1,0,0,0,8,62,1,0,0,0,10,73,1,0,0,0,12,75,1,0,
        0,0,14,120,1,0,0,0,16,130,1,0,0,0,18,132,1,0,0,0,20,153,1,0,0,0,
        22,155,1,0,0,0,24,188,1,0,0,0,26,190,1,0,0,0,28,198,1,0,0,0,30,221,
        1,0,0,0,32,231,1,0,0,0,34,255,1,0,0,0,36,37,3,26,13,0,37,38,5,0,
        0,1,38,1,1,0,0,0,39,42,3,4,2,0,40,42,3,6,3,0,41,39,1,0,0,0,41,40,
        1,0,0,0,42,43,1,0,0,0,43,44,5,0,0,1,44,3,1,0,0,0,45,46,7,0,0,0,46,
        47,5,53,0,0,47,5,1,0,0,0,48,50,3,8,4,0,49,51,3,18,9,0,50,49,1,0,
        0,0,50,51,1,0,0,0,51,54,1,0,0,0,52,53,7,1,0,0,53,55,3,22,11,0,54,
        52,1,0,0,0,54,55,1,0,0,0,55,59,1,0,0,0,56,58,3,10,5,0,57,56,1,0,
        0,0,58,61,1,0,0,0,59,57,1,0,0,0,59,60,1,0,0,0,60,7,1,0,0,0,61,59,
        1,0,0,0,62,63,7,2,0,0,63,9,1,0,0,0,64,74,5,5,0,0,65,66,5,21,0,0,
        66,69,5,63,0,0,67,68,5,22,0,0,68,70,5,64,0,0,69,67,1,0,0,0,69,70,
        1,0,0,0,70,74,1,0,0,0,71,72,5,20,0,0,72,74,5,60,0,0,73,64,1,0,0,
        0,73,65,1,0,0,0,73,71,1,0,0,0,74,11,1,0,0,0,75,76,3,14,7,0,76,77,
        5,0,0,1,77,13,1,0,0,0,78,80,7,3,0,0,79,81,3,18,9,0,80,79,1,0,0,0,
        80,81,1,0,0,0,81,84,1,0,0,0,82,83,5,16,0,0,83,85,3,22,11,0,84,82,
        1,0,0,0,84,85,1,0,0,0,85,88,1,0,0,0,86,87,5,17,0,0,87,89,3,22,11,
        0,88,86,1,0,0,0,88,89,1,0,0,0,89,93,1,0,0,0,90,92,3,16,8,0,91,90,
        1,0,0,0,92,95,1,0,0,0,93,91,1,0,0,0,93,94,1,0,0,0,94,121,1,0,0,0,
        95,93,1,0,0,0,96,98,5,9,0,0,97,99,3,18,9,0,98,97,1,0,0,0,98,99,1,
        0,0,0,99,100,1,0,0,0,100,101,5,16,0,0,101,102,3,22,11,0,102,103,
        5,17,0,0,103,107,3,22,11,0,104,106,3,16,8,0,105,104,1,0,0,0,106,
        109,1,0,0,0,107,105,1,0,0,0,107,108,1,0,0,0,108,121,1,0,0,0,109,
        107,1,0,0,0,110,111,5,10,0,0,111,112,3,22,11,0,112,113,5,16,0,0,
        113,117,3,22,11,0,114,116,3,16,8,0,115,114,1,0,0,0,116,119,1,0,0,
        0,117,115,1,0,0,0,117,118,1,0,0,0,118,121,1,0,0,0,119,117,1,0,0,
        0,120,78,1,0,0,0,120,96,1,0,0,0,120,110,1,0,0,0,121,15,1,0,0,0,122,
        131,5,14,0,0,123,131,5,15,0,0,124,125,5,11,0,0,125,131,5,12,0,0,
        126,127,5,20,0,0,127,131,5,60,0,0,128,129,5,13,0,0,129,131,5,60,
        0,0,130,122,1,0,0,0,130,123,1,0,0,0,130,124,1,0,0,0,130,126,1,0,
        0,0,130,128,1,0,0,0,131,17,1,0,0,0,132,137,3,20,10,0,133,134,5,52,
        0,0,134,136,3,20,10,0,135,133,1,0,0,0,136,139,1,0,0,0,137,135,1,
        0,0,0,137,138,1,0,0,0,138,19,1,0,0,0,139,137,1,0,0,0,140,154,5,23,
        0,0,141,154,7,4,0,0,142,154,5,63,0,0,143,149,7,5,0,0,144,147,7,6,
        0,0,145,146,5,30,0,0,146,148,5,64,0,0,147,145,1,0,0,0,147,148,1,
        0,0,0,148,150,1,0,0,0,149,144,1,0,0,0,149,150,1,0,0,0,150,154,1,
        0,0,0,151,152,5,29,0,0,152,154,5,64,0,0,153,140,1,0,0,0,153,141,
        1,0,0,0,153,142,1,0,0,0,153,143,1,0,0,0,153,151,1,0,0,0,154,21,1,
        0,0,0,155,160,3,24,12,0,156,157,7,7,0,0,157,159,3,24,12,0,158,156,
        1,0,0,0,159,162,1,0,0,0,160,158,1,0,0,0,160,161,1,0,0,0,161,23,1,
        0,0,0,162,160,1,0,0,0,163,189,5,23,0,0,164,179,5,62,0,0,165,177,
        5,18,0,0,166,178,5,62,0,0,167,168,5,56,0,0,168,173,5,62,0,0,169,
        170,5,52,0,0,170,172,5,62,0,0,171,169,1,0,0,0,172,175,1,0,0,0,173,
        171,1,0,0,0,173,174,1,0,0,0,174,176,1,0,0,0,175,173,1,0,0,0,176,
        178,5,57,0,0,177,166,1,0,0,0,177,167,1,0,0,0,178,180,1,0,0,0,179,
        165,1,0,0,0,179,180,1,0,0,0,180,189,1,0,0,0,181,182,5,31,0,0,182,
        189,5,63,0,0,183,184,5,32,0,0,184,189,5,65,0,0,185,186,5,33,0,0,
        186,189,3,26,13,0,187,189,3,26,13,0,188,163,1,0,0,0,188,164,1,0,
        0,0,188,181,1,0,0,0,188,183,1,0,0,0,188,185,1,0,0,0,188,187,1,0,
        0,0,189,25,1,0,0,0,190,195,3,28,14,0,191,192,5,48,0,0,192,194,3,
        28,14,0,193,191,1,0,0,0,194,197,1,0,0,0,195,193,1,0,0,0,195,196,
        1,0,0,0,196,27,1,0,0,0,197,195,1,0,0,0,198,203,3,30,15,0,199,200,
        5,47,0,0,200,202,3,30,15,0,201,199,1,0,0,0,202,205,1,0,0,0,203,201,
        1,0,0,0,203,204,1,0,0,0,204,29,1,0,0,0,205,203,1,0,0,0,206,207,5,
        51,0,0,207,222,3,30,15,0,208,209,5,54,0,0,209,210,3,26,13,0,210,
        211,5,55,0,0,211,222,1,0,0,0,212,222,5,38,0,0,213,214,5,39,0,0,214,
        215,5,54,0,0,215,216,3,32,16,0,216,217,5,55,0,0,217,222,1,0,0,0,
        218,219,3,32,16,0,219,220,3,34,17,0,220,222,1,0,0,0,221,206,1,0,
        0,0,221,208,1,0,0,0,221,212,1,0,0,0,221,213,1,0,0,0,221,218,1,0,
        0,0,222,31,1,0,0,0,223,232,5,61,0,0,224,225,7,8,0,0,225,226,5,58,
        0,0,226,227,5,60,0,0,227,232,5,59,0,0,228,232,5,36,0,0,229,232,5,
        33,0,0,230,232,5,37,0,0,231,223,1,0,0,0,231,224,1,0,0,0,231,228,
        1,0,0,0,231,229,1,0,0,0,231,230,1,0,0,0,232,33,1,0,0,0,233,234,7,
        9,0,0,234,256,5,60,0,0,235,237,5,42,0,0,236,235,1,0,0,0,236,237,
        1,0,0,0,237,238,1,0,0,0,238,239,5,41,0,0,239,240,5,56,0,0,240,245,
        5,60,0,0,241,242,5,52,0,0,242,244,5,60,0,0,243,241,1,0,0,0,244,247,
        1,0,0,0,245,243,1,0,0,0,245,246,1,0,0,0,246,248,1,0,0,0,247,245,
        1,0,0,0,248,256,5,57,0,0,249,256,5,40,0,0,250,251,7,10,0,0,251,252,
        5,45,0,0,252,256,5,60,0,0,253,254,5,46,0,0,254,256,5,60,0,0,255,
        233,1,0,0,0,255,236,1,0,0,0,255,249,1,0,0,0,255,250,1,0,0,0,255,
        253,1,0,0,0,256,35,1,0,0,0,31,41,50,54,59,69,73,80,84,88,93,98,107,
        117,120,130,137,147,149,153,160,173,177,179,188,195,203,221,231,
        236,245,255
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
    RULE_peers = 11
    RULE_peer = 12
    RULE_expression = 13
    RULE_conjunction = 14
    RULE_term = 15
    RULE_attribute = 16
    RULE_test = 17

    ruleNames =  [ "selection", "statement", "section", "policyRule", "action", 
                   "modifier", "intent", "promise", "remark", "services", 
                   "service", "peers", "peer", "expression", "conjunction", 
                   "term", "attribute", "test" ]

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
            self.state = 36
            self.expression()
            self.state = 37
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
            self.state = 41
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [14, 15]:
                self.state = 39
                self.section()
                pass
            elif token in [1, 2, 3, 4, 5, 6]:
                self.state = 40
                self.policyRule()
                pass
            else:
                raise NoViableAltException(self)

            self.state = 43
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
            self.state = 45
            _la = self._input.LA(1)
            if not(_la==14 or _la==15):
                self._errHandler.recoverInline(self)
            else:
                self._errHandler.reportMatch(self)
                self.consume()
            self.state = 46
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


        def peers(self):
            return self.getTypedRuleContext(PolicycParser.PeersContext,0)


        def modifier(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(PolicycParser.ModifierContext)
            else:
                return self.getTypedRuleContext(PolicycParser.ModifierContext,i)


        def FROM(self):
            return self.getToken(PolicycParser.FROM, 0)

        def TO(self):
            return self.getToken(PolicycParser.TO, 0)

        def getRuleIndex(self):
            return PolicycParser.RULE_policyRule




    def policyRule(self):

        localctx = PolicycParser.PolicyRuleContext(self, self._ctx, self.state)
        self.enterRule(localctx, 6, self.RULE_policyRule)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 48
            self.action()
            self.state = 50
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if (((_la) & ~0x3f) == 0 and ((1 << _la) & -9223372035789422592) != 0):
                self.state = 49
                self.services()


            self.state = 54
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==16 or _la==17:
                self.state = 52
                _la = self._input.LA(1)
                if not(_la==16 or _la==17):
                    self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                self.state = 53
                self.peers()


            self.state = 59
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while (((_la) & ~0x3f) == 0 and ((1 << _la) & 3145760) != 0):
                self.state = 56
                self.modifier()
                self.state = 61
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
            self.state = 62
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
            self.state = 73
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [5]:
                self.enterOuterAlt(localctx, 1)
                self.state = 64
                self.match(PolicycParser.LOG)
                pass
            elif token in [21]:
                self.enterOuterAlt(localctx, 2)
                self.state = 65
                self.match(PolicycParser.LIMIT)
                self.state = 66
                self.match(PolicycParser.QUALIFIED)
                self.state = 69
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==22:
                    self.state = 67
                    self.match(PolicycParser.BURST)
                    self.state = 68
                    self.match(PolicycParser.NUMBER)


                pass
            elif token in [20]:
                self.enterOuterAlt(localctx, 3)
                self.state = 71
                self.match(PolicycParser.AS)
                self.state = 72
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
            self.state = 75
            self.promise()
            self.state = 76
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
            self.state = 120
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [7, 8]:
                self.enterOuterAlt(localctx, 1)
                self.state = 78
                _la = self._input.LA(1)
                if not(_la==7 or _la==8):
                    self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                self.state = 80
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if (((_la) & ~0x3f) == 0 and ((1 << _la) & -9223372035789422592) != 0):
                    self.state = 79
                    self.services()


                self.state = 84
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==16:
                    self.state = 82
                    self.match(PolicycParser.FROM)
                    self.state = 83
                    self.peers()


                self.state = 88
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==17:
                    self.state = 86
                    self.match(PolicycParser.TO)
                    self.state = 87
                    self.peers()


                self.state = 93
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                while (((_la) & ~0x3f) == 0 and ((1 << _la) & 1107968) != 0):
                    self.state = 90
                    self.remark()
                    self.state = 95
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)

                pass
            elif token in [9]:
                self.enterOuterAlt(localctx, 2)
                self.state = 96
                self.match(PolicycParser.ONLY)
                self.state = 98
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if (((_la) & ~0x3f) == 0 and ((1 << _la) & -9223372035789422592) != 0):
                    self.state = 97
                    self.services()


                self.state = 100
                self.match(PolicycParser.FROM)
                self.state = 101
                self.peers()
                self.state = 102
                self.match(PolicycParser.TO)
                self.state = 103
                self.peers()
                self.state = 107
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                while (((_la) & ~0x3f) == 0 and ((1 << _la) & 1107968) != 0):
                    self.state = 104
                    self.remark()
                    self.state = 109
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)

                pass
            elif token in [10]:
                self.enterOuterAlt(localctx, 3)
                self.state = 110
                self.match(PolicycParser.ISOLATED)
                self.state = 111
                self.peers()
                self.state = 112
                self.match(PolicycParser.FROM)
                self.state = 113
                self.peers()
                self.state = 117
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                while (((_la) & ~0x3f) == 0 and ((1 << _la) & 1107968) != 0):
                    self.state = 114
                    self.remark()
                    self.state = 119
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
            self.state = 130
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [14]:
                self.enterOuterAlt(localctx, 1)
                self.state = 122
                self.match(PolicycParser.INGRESS)
                pass
            elif token in [15]:
                self.enterOuterAlt(localctx, 2)
                self.state = 123
                self.match(PolicycParser.EGRESS)
                pass
            elif token in [11]:
                self.enterOuterAlt(localctx, 3)
                self.state = 124
                self.match(PolicycParser.INCLUDING)
                self.state = 125
                self.match(PolicycParser.BUILTIN)
                pass
            elif token in [20]:
                self.enterOuterAlt(localctx, 4)
                self.state = 126
                self.match(PolicycParser.AS)
                self.state = 127
                self.match(PolicycParser.STRING)
                pass
            elif token in [13]:
                self.enterOuterAlt(localctx, 5)
                self.state = 128
                self.match(PolicycParser.BECAUSE)
                self.state = 129
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
            self.state = 132
            self.service()
            self.state = 137
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==52:
                self.state = 133
                self.match(PolicycParser.COMMA)
                self.state = 134
                self.service()
                self.state = 139
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
            self.state = 153
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [23]:
                self.enterOuterAlt(localctx, 1)
                self.state = 140
                self.match(PolicycParser.ANY)
                pass
            elif token in [24, 25, 26]:
                self.enterOuterAlt(localctx, 2)
                self.state = 141
                _la = self._input.LA(1)
                if not((((_la) & ~0x3f) == 0 and ((1 << _la) & 117440512) != 0)):
                    self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                pass
            elif token in [63]:
                self.enterOuterAlt(localctx, 3)
                self.state = 142
                self.match(PolicycParser.QUALIFIED)
                pass
            elif token in [27, 28]:
                self.enterOuterAlt(localctx, 4)
                self.state = 143
                _la = self._input.LA(1)
                if not(_la==27 or _la==28):
                    self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                self.state = 149
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==64 or _la==65:
                    self.state = 144
                    _la = self._input.LA(1)
                    if not(_la==64 or _la==65):
                        self._errHandler.recoverInline(self)
                    else:
                        self._errHandler.reportMatch(self)
                        self.consume()
                    self.state = 147
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)
                    if _la==30:
                        self.state = 145
                        self.match(PolicycParser.CODE)
                        self.state = 146
                        self.match(PolicycParser.NUMBER)




                pass
            elif token in [29]:
                self.enterOuterAlt(localctx, 5)
                self.state = 151
                self.match(PolicycParser.PROTOCOL)
                self.state = 152
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
        self.enterRule(localctx, 22, self.RULE_peers)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 155
            self.peer()
            self.state = 160
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==19 or _la==52:
                self.state = 156
                _la = self._input.LA(1)
                if not(_la==19 or _la==52):
                    self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                self.state = 157
                self.peer()
                self.state = 162
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

        def SERVICE(self):
            return self.getToken(PolicycParser.SERVICE, 0)

        def QUALIFIED(self):
            return self.getToken(PolicycParser.QUALIFIED, 0)

        def ENTITY(self):
            return self.getToken(PolicycParser.ENTITY, 0)

        def WORD(self):
            return self.getToken(PolicycParser.WORD, 0)

        def NODE(self):
            return self.getToken(PolicycParser.NODE, 0)

        def expression(self):
            return self.getTypedRuleContext(PolicycParser.ExpressionContext,0)


        def getRuleIndex(self):
            return PolicycParser.RULE_peer




    def peer(self):

        localctx = PolicycParser.PeerContext(self, self._ctx, self.state)
        self.enterRule(localctx, 24, self.RULE_peer)
        self._la = 0 # Token type
        try:
            self.state = 188
            self._errHandler.sync(self)
            la_ = self._interp.adaptivePredict(self._input,23,self._ctx)
            if la_ == 1:
                self.enterOuterAlt(localctx, 1)
                self.state = 163
                self.match(PolicycParser.ANY)
                pass

            elif la_ == 2:
                self.enterOuterAlt(localctx, 2)
                self.state = 164
                self.match(PolicycParser.ADDRESS)
                self.state = 179
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==18:
                    self.state = 165
                    self.match(PolicycParser.EXCEPT)
                    self.state = 177
                    self._errHandler.sync(self)
                    token = self._input.LA(1)
                    if token in [62]:
                        self.state = 166
                        self.match(PolicycParser.ADDRESS)
                        pass
                    elif token in [56]:
                        self.state = 167
                        self.match(PolicycParser.OPEN_BRACE)
                        self.state = 168
                        self.match(PolicycParser.ADDRESS)
                        self.state = 173
                        self._errHandler.sync(self)
                        _la = self._input.LA(1)
                        while _la==52:
                            self.state = 169
                            self.match(PolicycParser.COMMA)
                            self.state = 170
                            self.match(PolicycParser.ADDRESS)
                            self.state = 175
                            self._errHandler.sync(self)
                            _la = self._input.LA(1)

                        self.state = 176
                        self.match(PolicycParser.CLOSE_BRACE)
                        pass
                    else:
                        raise NoViableAltException(self)



                pass

            elif la_ == 3:
                self.enterOuterAlt(localctx, 3)
                self.state = 181
                self.match(PolicycParser.SERVICE)
                self.state = 182
                self.match(PolicycParser.QUALIFIED)
                pass

            elif la_ == 4:
                self.enterOuterAlt(localctx, 4)
                self.state = 183
                self.match(PolicycParser.ENTITY)
                self.state = 184
                self.match(PolicycParser.WORD)
                pass

            elif la_ == 5:
                self.enterOuterAlt(localctx, 5)
                self.state = 185
                self.match(PolicycParser.NODE)
                self.state = 186
                self.expression()
                pass

            elif la_ == 6:
                self.enterOuterAlt(localctx, 6)
                self.state = 187
                self.expression()
                pass


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
        self.enterRule(localctx, 26, self.RULE_expression)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 190
            self.conjunction()
            self.state = 195
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==48:
                self.state = 191
                self.match(PolicycParser.OR_OR)
                self.state = 192
                self.conjunction()
                self.state = 197
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
        self.enterRule(localctx, 28, self.RULE_conjunction)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 198
            self.term()
            self.state = 203
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==47:
                self.state = 199
                self.match(PolicycParser.AND_AND)
                self.state = 200
                self.term()
                self.state = 205
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
        self.enterRule(localctx, 30, self.RULE_term)
        try:
            self.state = 221
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [51]:
                self.enterOuterAlt(localctx, 1)
                self.state = 206
                self.match(PolicycParser.BANG)
                self.state = 207
                self.term()
                pass
            elif token in [54]:
                self.enterOuterAlt(localctx, 2)
                self.state = 208
                self.match(PolicycParser.OPEN_PAREN)
                self.state = 209
                self.expression()
                self.state = 210
                self.match(PolicycParser.CLOSE_PAREN)
                pass
            elif token in [38]:
                self.enterOuterAlt(localctx, 3)
                self.state = 212
                self.match(PolicycParser.ALL)
                pass
            elif token in [39]:
                self.enterOuterAlt(localctx, 4)
                self.state = 213
                self.match(PolicycParser.HAS)
                self.state = 214
                self.match(PolicycParser.OPEN_PAREN)
                self.state = 215
                self.attribute()
                self.state = 216
                self.match(PolicycParser.CLOSE_PAREN)
                pass
            elif token in [33, 34, 35, 36, 37, 61]:
                self.enterOuterAlt(localctx, 5)
                self.state = 218
                self.attribute()
                self.state = 219
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
        self.enterRule(localctx, 32, self.RULE_attribute)
        self._la = 0 # Token type
        try:
            self.state = 231
            self._errHandler.sync(self)
            la_ = self._interp.adaptivePredict(self._input,27,self._ctx)
            if la_ == 1:
                self.enterOuterAlt(localctx, 1)
                self.state = 223
                self.match(PolicycParser.ATTRIBUTE)
                pass

            elif la_ == 2:
                self.enterOuterAlt(localctx, 2)
                self.state = 224
                _la = self._input.LA(1)
                if not((((_la) & ~0x3f) == 0 and ((1 << _la) & 197568495616) != 0)):
                    self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                self.state = 225
                self.match(PolicycParser.OPEN_BRACKET)
                self.state = 226
                self.match(PolicycParser.STRING)
                self.state = 227
                self.match(PolicycParser.CLOSE_BRACKET)
                pass

            elif la_ == 3:
                self.enterOuterAlt(localctx, 3)
                self.state = 228
                self.match(PolicycParser.NAMESPACE)
                pass

            elif la_ == 4:
                self.enterOuterAlt(localctx, 4)
                self.state = 229
                self.match(PolicycParser.NODE)
                pass

            elif la_ == 5:
                self.enterOuterAlt(localctx, 5)
                self.state = 230
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
        self.enterRule(localctx, 34, self.RULE_test)
        self._la = 0 # Token type
        try:
            self.state = 255
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [49, 50]:
                self.enterOuterAlt(localctx, 1)
                self.state = 233
                _la = self._input.LA(1)
                if not(_la==49 or _la==50):
                    self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                self.state = 234
                self.match(PolicycParser.STRING)
                pass
            elif token in [41, 42]:
                self.enterOuterAlt(localctx, 2)
                self.state = 236
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==42:
                    self.state = 235
                    self.match(PolicycParser.NOT)


                self.state = 238
                self.match(PolicycParser.IN)
                self.state = 239
                self.match(PolicycParser.OPEN_BRACE)
                self.state = 240
                self.match(PolicycParser.STRING)
                self.state = 245
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                while _la==52:
                    self.state = 241
                    self.match(PolicycParser.COMMA)
                    self.state = 242
                    self.match(PolicycParser.STRING)
                    self.state = 247
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)

                self.state = 248
                self.match(PolicycParser.CLOSE_BRACE)
                pass
            elif token in [40]:
                self.enterOuterAlt(localctx, 3)
                self.state = 249
                self.match(PolicycParser.EXISTS)
                pass
            elif token in [43, 44]:
                self.enterOuterAlt(localctx, 4)
                self.state = 250
                _la = self._input.LA(1)
                if not(_la==43 or _la==44):
                    self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                self.state = 251
                self.match(PolicycParser.WITH)
                self.state = 252
                self.match(PolicycParser.STRING)
                pass
            elif token in [46]:
                self.enterOuterAlt(localctx, 5)
                self.state = 253
                self.match(PolicycParser.CONTAINS)
                self.state = 254
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





