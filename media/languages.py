"""Converts the languages of containers to the tags of playlists, and to English names. Pure.

Containers use three letters (ISO 639-2), some languages with two variants; playlists use the
shortest tag (RFC 5646, 2.2.1), so the two letters of ISO 639-1 if a language has them.
"""

import re
from typing import Final

# Two letters, three letters (the variant after a slash), and the English name.
_KNOWN: Final = """
af afr Afrikaans|am amh Amharic|ar ara Arabic|az aze Azerbaijani|be bel Belarusian|bg bul Bulgarian
bn ben Bengali|bs bos Bosnian|ca cat Catalan|cs ces/cze Czech|cy cym/wel Welsh|da dan Danish
de deu/ger German|el ell/gre Greek|en eng English|eo epo Esperanto|es spa Spanish|et est Estonian
eu eus/baq Basque|fa fas/per Persian|fi fin Finnish|fo fao Faroese|fr fra/fre French
fy fry Western Frisian|ga gle Irish|gd gla Scottish Gaelic|gl glg Galician|gu guj Gujarati
ha hau Hausa|he heb Hebrew|hi hin Hindi|hr hrv Croatian|hu hun Hungarian|hy hye/arm Armenian
id ind Indonesian|ig ibo Igbo|is isl/ice Icelandic|it ita Italian|ja jpn Japanese
jv jav Javanese|ka kat/geo Georgian|kk kaz Kazakh|km khm Khmer|kn kan Kannada|ko kor Korean
ku kur Kurdish|ky kir Kyrgyz|la lat Latin|lb ltz Luxembourgish|lo lao Lao|lt lit Lithuanian
lv lav Latvian|mg mlg Malagasy|mi mri/mao Maori|mk mkd/mac Macedonian|ml mal Malayalam
mn mon Mongolian|mr mar Marathi|ms msa/may Malay|mt mlt Maltese|my mya/bur Burmese
nb nob Norwegian Bokmål|ne nep Nepali|nl nld/dut Dutch|nn nno Norwegian Nynorsk|no nor Norwegian
oc oci Occitan|pa pan Punjabi|pl pol Polish|ps pus Pashto|pt por Portuguese|qu que Quechua
rm roh Romansh|ro ron/rum Romanian|ru rus Russian|rw kin Kinyarwanda|sa san Sanskrit
sd snd Sindhi|se sme Northern Sami|si sin Sinhala|sk slk/slo Slovak|sl slv Slovenian
sn sna Shona|so som Somali|sq sqi/alb Albanian|sr srp Serbian|st sot Southern Sotho
su sun Sundanese|sv swe Swedish|sw swa Swahili|ta tam Tamil|te tel Telugu|tg tgk Tajik
th tha Thai|ti tir Tigrinya|tk tuk Turkmen|tl tgl Tagalog|tr tur Turkish|tt tat Tatar
ug uig Uyghur|uk ukr Ukrainian|ur urd Urdu|uz uzb Uzbek|vi vie Vietnamese|wo wol Wolof
xh xho Xhosa|yi yid Yiddish|yo yor Yoruba|zh zho/chi Chinese|zu zul Zulu
"""
_TAG: Final = re.compile(r"[a-z]{2,3}(?:-[A-Za-z0-9]{1,8}){0,3}", re.IGNORECASE)
# Undetermined, multiple, no language, uncoded, and private use (qaa to qtz).
_NO_LANGUAGE: Final = re.compile(r"und|mul|zxx|mis|q[a-t][a-z]")


def _parse_table() -> tuple[dict[str, str], dict[str, str]]:
    tags: dict[str, str] = {}
    names: dict[str, str] = {}
    for entry in _KNOWN.replace("\n", "|").split("|"):
        if not entry:
            continue
        short, long, name = entry.split(" ", 2)
        names[short] = name
        tags |= dict.fromkeys(long.split("/"), short)
    return tags, names


_TAGS, _NAMES = _parse_table()


def language_tag(declared: str | None) -> str:
    """Return the tag of the language that a container declares, "" if that is none."""
    tag = (declared or "").strip().replace("_", "-")
    if not _TAG.fullmatch(tag):
        return ""
    first, hyphen, rest = tag.partition("-")
    first = first.lower()
    return "" if _NO_LANGUAGE.fullmatch(first) else _TAGS.get(first, first) + hyphen + rest


def language_name(tag: str) -> str:
    """Return the English name of a tag; the tag itself if it is unknown."""
    return _NAMES.get(tag, tag)
