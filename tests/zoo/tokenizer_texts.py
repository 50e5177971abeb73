"""Texts in many scripts for make_tokenizers.py: what the small tokenizers learn from, and what they are tried on."""

LEARN = [
    "All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience and "
    "should act towards one another in a spirit of brotherhood. It's what we'll do; they're sure I'd say I've done it.",
    "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison et de conscience.",
    "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Straße, Größe, ärger, über.",
    "Все люди рождаются свободными и равными в своём достоинстве и правах. Они наделены разумом и совестью.",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق وقد وهبوا عقلا وضميرا.",
    "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
    "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。",
    "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。カタカナも。",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
    "😀 👍 👩‍👩‍👧 ❤️ 🇫🇷 emoji 😀😀 👍🏽",
    "In 2024 there were 1234567 of 3.14 and 10,000 or 42 or 007; 1st 2nd 3rd.",
    "def main(argv):\n    for i in range(10):\n        print(f\"{i}: {argv[i]}\")\n    return 0\n\nif __name__ == \"__main__\":\n\tmain([])\n",
    "for (int i = 0; i < n; ++i) { sum += a[i] * b[i]; }  // the sum\n\n\n    x  =  y;",
]

TRY = {
    "latin": ["The quick brown fox jumps over the lazy dog, doesn't it? They'll see; I'M SURE.",
              "Café naïve façade – Zażółć gęślą jaźń, Çağrı İstanbul ıI, ﬁne ﬂow Ǆ ǅ ß ẞ", "e\u0301cole a\u0308 o\u0302\u0323 (decomposed)"],
    "cyrillic": ["Съешь ещё этих мягких французских булок, да выпей чаю.", "Ђорђе Ґалаґан Йожик и\u0306"],
    "greek": ["Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. ΟΔΥΣΣΕΥΣ", "ἀρχῇ ἦν ὁ λόγος ᾳ ΐ"],
    "arabic": ["نص حكيم له سر قاطع وذو شأن عظيم", "مُحَمَّدٌ ١٢٣٤ ﷺ ﻻ"],
    "hebrew": ["דג סקרן שט בים מאוכזב ולפתע מצא חברה", "שָׁלוֹם עֲלֵיכֶם"],
    "devanagari": ["ऋषियों को सताने वाले दुष्ट राक्षसों", "क्षत्रिय ज़रूर १२३ हिन्दी"],
    "chinese": ["视野无限广，窗外有蓝天。", "漢字 𠮷 𪚥 ㍿ ㈱ ｆｕｌｌ　ｗｉｄｔｈ"],
    "japanese": ["いろはにほへと ちりぬるを", "ﾊﾝｶｸ カ゛ が か\u3099 東京タワー"],
    "korean": ["키스의 고유조건은 입술끼리 만나야 하고", "\u1112\u1161\u11ab\u1100\u1173\u11af 한글"],
    "thai": ["เป็นมนุษย์สุดประเสริฐเลิศคุณค่า", "น้ำ กำ ๑๒๓"],
    "emoji": ["👨‍👩‍👧‍👦 family 🏳️‍🌈 flags 🇩🇪🇯🇵 👋🏿", "☺️ ☺ ©️ 🫠 1️⃣"],
    "whitespace": ["  two  three   four    \t tab\t\ttabs \n\n newlines \r\n\r\n end   ", "\u00a0nbsp\u2003em\u3000wide\u200bzero\u180e\ufeffbom\u2028line\x0bvt\x85nel", " ", "\n", "   "],
    "numbers": ["1 12 123 1234 12345 123456 1234567 3.14159 -42 1e-5 0x1F ½ ² Ⅷ ①", "٣٤ 10,000.00 €5 $6 +7 =8"],
    "code": ["int main() {\n\treturn a->b[0] ? ~x : !y;\n}\n", "    if x==1:\n        y += 'it''s' # ``quoted'' \"\n", "<div class=\"a\">&amp;</div> http://a.b/c?d=e#f_g"],
    "odd": ["", "x", "a\u0000b\u0001c\u007fd\u009fe\ufffdf\ue000g", "w" * 120, "!!!???...", "<s>hi</s> <|endoftext|>x <mask> [MASK]y [CLS]<pad>",
            "hello <mask>  there<mask>!  <|endoftext|>\n", "ab NEWword NEW wordNEW NEW", "‘quotes’ “double” — dash… •", "can't CAN'T can’t 'tis x'LL"],
}

# Longer lines in one language at a time, so that merges of several lengths are learnt.
LEARN += [" ".join(reversed(line.split(" "))) for line in LEARN]
