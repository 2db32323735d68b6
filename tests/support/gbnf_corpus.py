"""GBNF of the kinds that people use, each with a text of its language: what llama.cpp ships, said in other words."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """A grammar with the root rule `root`, and texts that it accepts."""

    name: str
    grammar: str
    texts: tuple[str, ...]


JSON = Sample(
    "json",
    r"""
root ::= object
value ::= (object | array | string | number | "true" | "false" | "null") space
object ::= "{" space (member ("," space member)*)? "}" space
member ::= string ":" space value
array ::= "[" space (value ("," space value)*)? "]" space
string ::= "\"" ([^"\\\x00-\x1F\x7F] | "\\" (["\\/bfnrt] | "u" hex{4}))* "\"" space
hex ::= [0-9a-fA-F]
number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,3})? space
space ::= ([ \t\n] space)?
""",
    ('{"a": [1, -2.5e+3, true, null], "b\\n": {}}\n', '{ "é😀": "\\u00e9" }', "{}"),
)

JSON_ARRAY = Sample(
    "json array",
    r"""
root ::= "[" ws (item ("," ws item)*)? "]"
item ::= ("{" ws (pair ("," ws pair)*)? "}" | "[" ws (item ("," ws item)*)? "]" | text | [0-9]+) ws
pair ::= text ":" ws item
text ::= "\"" [^"\n]* "\"" ws
ws ::= | " " | "\n" [ \t]{0,20}
""",
    ('[1, "a", {"b": [ ]}]', "[]", '["x"\n\t]'),
)

LIST = Sample(
    "list",
    '# one line each\nroot ::= line+\nline ::= "- " [^\\r\\n\\x0b\\x0c\\x85\\u2028\\u2029]+ "\\n"\n',
    ("- one\n- two, é\n", "- x\n"),
)

ENGLISH = Sample(
    "english",
    r"""
root ::= sign+ ([ \t\n] sign+)*
sign ::= letter | [0-9] | mark
letter ::= [a-zA-Z]
mark ::= [!-/:-@\[-`{-~]
""",
    ("A few words, here.", "x"),
)

PROGRAM = Sample(
    "program",
    r"""
root ::= function*
function ::= type name "(" (type name)? ")" "{" statement* "}"
type ::= ("int" | "float" | "char") blank
name ::= [a-zA-Z_] [a-zA-Z_0-9]*
statement ::=
    type name blank "=" blank sum ";" |
    name blank "=" blank sum ";" |
    name blank "(" arguments? ")" ";" |
    "return" blank sum ";" |
    "while" "(" test ")" "{" statement* "}" |
    "if" "(" test ")" "{" statement* "}" ("else" "{" statement* "}")? |
    "//" [^\n]* "\n" |
    "/*" ([^*] | "*" [^/])* "*/"
test ::= sum ("<=" | "<" | "==" | "!=" | ">=" | ">") sum
sum ::= product (("+" | "-") product)*
product ::= factor (("*" | "/") factor)*
factor ::= name | [0-9]+ | "-" factor | name "(" arguments? ")" | "(" blank sum blank ")"
arguments ::= sum ("," blank sum)*
blank ::= [ \t\n]+
""",
    ("int main(int x){return 1+y*f(2, 3);if(a<=b){// hm é\n}else{int  c = -1;}/* a * b */}", ""),
)

ARITHMETIC = Sample(
    "arithmetic",
    r"""
root ::= (sum "=" ws term "\n")+
sum ::= term ([-+*/] term)*
term ::= name | number | "(" ws sum ")" ws
name ::= [a-z] [a-z0-9_]* ws
number ::= [0-9]+ ws
ws ::= [ \t\n]*
""",
    ("1 +(a_1 *2)= 3\n", "x=y\n\n"),
)

CHESS = Sample(
    "chess",
    r"""
root ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move ::= (pawn | piece | castle) [+#]?
piece ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
""",
    ("1. e4 e5\n2. Nf3 O-O-O\n", "1. exd5 Qxd5+\n10. a8=Q Kd7\n"),
)

JAPANESE = Sample(
    "japanese",
    """
root ::= kana+ ([ \\t\\n] kana+)*
kana ::= [ぁ-ゟ] | [ァ-ヿ] | mark | [㐀-䶵一-龯]
mark ::= [、-〾]
""",
    ("ひらがな、カタカナ\n漢字", "。"),
)

EMOJI = Sample("emoji", 'root ::= [🫠-🫨]{2} "end"', ("🫠🫡end", "🫨🫨end"))

BLANKS = Sample("blanks", 'root ::= "{" ws "}"\nws ::= [ \\n\\t]*', ("{}", "{ \n\t }"))

SAMPLES = (JSON, JSON_ARRAY, LIST, ENGLISH, PROGRAM, ARITHMETIC, CHESS, JAPANESE, EMOJI, BLANKS)

REFUSED = (
    "root ::= foo",
    'root ::= "abc',
    "root ::= [abc",
    'root ::= ("a" | "b"',
    'Root ::= "x"',
    'root :== "x"',
    'root ::= "\\d"+',
    'root ::= root "a" | "b"',
    'root ::= expr\nexpr ::= int | sum\nint ::= [0-9]+\nsum ::= expr ("+" | "-") expr',
    'root ::= "a"{5,0}',
    'root ::= "ab"{3000}',
    'root ::= "a"{99999999999999999999}',
    'root ::= (("a"{0,900}){0,900}){0,900}',
    'root ::= "foo"\n       | bar\nbar ::= "b"',
    'root ::= bar_1\nbar_1 ::= "b"',
)
"""What llama.cpp refuses, or (`{5,0}`) hangs on, and we refuse."""
