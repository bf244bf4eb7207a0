"""Find statements of an answer that loosen what the passages require, skip an approval, or order the destruction of
evidence.

The statements of the passages are called sources here. Sentence similarity cannot see a contradiction
(docs/offline.md). But words that loosen a rule (need not, may, on one's own) are a strong claim, so a source about the
same thing must say the same. The rules see only words: those with which a statement contradicts its source, and those
that cancel this effect. The patterns are for NFKC text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

from ..runbooks.bm25 import content_words
from .facts import is_negative

# Of an act or thing. "spares": it is unnecessary, or is left as it is. "tells": it is not something else, which is
# neither a ban nor a permission. "does": none of the others; the act is to be done, or the thing is so.
Stance = Literal["does", "forbids", "spares", "permits", "tells"]

# What need not be done, or is left as it is.
_SPARES = re.compile(
    r"(?:必要|義務)(?:は|が|も|性は)?(?:ない|ありません|なく|なし|(?:ある|な|という)わけでは(?:な[いく]|ありません))|不要|省[いくけ略]|割愛|飛ばし|抜きで|必須では|任意(?!の)|見送[りっるら]|見合わせ"
    r"|(?:なく|ず)(?:て|と)?も?(?:よい|良い|いい(?!え)|よく|(?:構|かま)[わい](?:ない|ず|ません)?|差し支え(?:は|が)?(?:な[いく]|ありません)?"
    r"|問題(?:は|が)?(?:な[いく]|ありません)|大丈夫|足り|済)"
    r"|(?:対処|対応)は[^、。]{0,4}(?:済|完了|終わ)"
    r"|手を[付つ]け(?:ず|な)|何もせず|待機し|静観|見守"
    r"|(?:は|も|まで)(?:要らな|いらな|要りま|求めな|求めま|及ばな|及びま)|(?:確認|保全|完了|結果|判断|検査|検証)[^、。]{0,6}(?:待つ(?:必要|こと)|待たず)|問わず"
    r"|そのまま(?:に|使|利用|継続|放置|続|業務|とし|で(?:よ|い|か|構))|現状のまま|(?:ば|で)(?:十分|足り)|続けさせ|続けて(?:もらい|もらう|よ|い|構|か)|使い続け|据え置|放置|従来の|これまでの(?:もの|まま)"
)
_PERMITS = re.compile(
    r"(?<!後)(?<!あと)(?<!と見)(?<!と考え)[てで]も?(?:よい|良い|よく|よろしい|いい(?!え)|構わ(?:ない|ず|ません)|かまわ(?:ない|ず|ません)|かまいません|構いません|差し支え(?:ない|なく|ありません|は)|問題(?:は|が)?(?:ない|なく|ありません)|大丈夫|結構|可(?:とする|です|。|$))"
    r"|差し支えな|許される|許可する|認められる|自由に"
)
# Without those who must agree.
_ALONE = re.compile(
    r"独断|独自(?:に|の)|単独(?:で|の)|一存|(?:自分|自ら|自身|担当者?|当番|個人|現場|その場(?=の|で(?:判断|決|承認))|本人|利用者|片方|一人|1人|1名|どちらか|いずれか)の?(?:判断|了承|了解|承認|同意|許可|裁量)?(?:だけ|のみ|一つ|ひとつ)?(?<!当番)(?<!担当)で(?!あ[るり]|す|は|き)"
    r"|(?:当番|担当)で(?:判断|決め|進め|実施)|判断(?:だけ|のみ)?で|(?:連絡|報告|口頭|承認|申請)(?:だけ|のみ)で|口頭(?:のみ|で済)|直ちに実施|そのまま[^、。]{0,12}(?:実行|実施|進め|始め)"
)
# One thing and not another: what is turned down in a statement.
_ASIDE = re.compile(
    r"「[^」]{1,60}」(?:と|って)(?:言|い[わっ]|聞か|頼[まみ]|求め)[^、。]{0,8}(?:ても|たら|れば|と)、|[^、。「」]{2,30}[うくぐすつぬぶむる]代わりに、?|[^、。「」]{1,20}(?:では|じゃ|んじゃ)な(?:く|しに)て?、?(?!ても)"
)
_NARROWS = re.compile(
    r"(?<![うくぐすつぬぶむるたい」])(?:だけ|のみ)(?:を|で(?!な|は|す|あ|済ませ(?:ず|な))|の)|(?<!後)(?:だけ|のみ)(?:です|に(?!か))"
)
_LIMITS = re.compile(r"だけ|のみ|限[るりっ定]|以外")
# Leave that is given for one thing only says what is not allowed: 使ってよいのはハッシュだけ.
_ONLY_LEAVE = re.compile(
    r"(?:よい|良い|いい|構わない|可能な|許される|[えけげせてねべめれき]る)(?:のは|[一-龠]{1,4}は)[^。]{1,60}(?:だけ|のみ|後|限[りら]|から(?:です|だ|。|$)|場合)"
)
# Says what may be, and asks for nothing.
_MAY_BE = re.compile(
    r"(?:可能性|おそれ|恐れ|危険性?|リスク)[がもは](?:あ|残|高|否定でき)[^。]{0,5}[。]?\s*$|(?:かもしれ|とは限ら|かね)(?:ない|ません)[。]?\s*$"
)
# Leaving something alone, where a source forbids to touch it.
_LEAVES = re.compile(r"手を[付つ]け|そのまま(?:に|で|とし)|見守|何もせず|静観|待機")
_APPROVAL = re.compile(r"承認|許可|決裁|緊急変更申請|同意|[2二]名")
_SKIPS_APPROVAL = re.compile(
    r"(?:承認|許可|決裁|申請書?|同意|指示|了承|了解|判断)(?:は|を|も|まで|すら)?[^、。で]{1,5}(?:ず(?:に|、|と)|ないで|ないまま)"
    r"|(?<!本人)確認(?:は|を|も)?(?:待た|取ら|得)ず|(?:承認|許可|確認|指示)[^、。]{0,8}待(?:って|つ)[^、。]{0,8}(?:余裕|時間|暇)"
    r"|(?:承認|許可|決裁|申請|同意|指示|了承|了解|確認者|承認者)[^、。]{0,12}(?:待たず|待つ(?:こと|必要)|待たな|得ず|得な(?!け)|取らず|取らな|経ず|経な|受けず|なし[にで]|なく(?!て)|無し[でに]|不要|省|抜き|後回し|後日|後追い|事後|(?:取|得|下り|受け)る前|[ずなく]て[もよ])"
    r"|(?:承認|許可|申請|決裁)(?:は|を|も)後(?:で|から)|(?:承認|許可|申請|決裁)(?:は|を|も)[^。]{0,6}(?:処置|対応|作業|操作|遮断|停止|無効化)[^。]{0,8}(?:てから|でから|たら|だら|た後|だ後|の?後[でに])"
    r"|(?:事後|後追い|後付け)の?(?:承認|申請|報告|許可)|(?:保全|保存|証拠)[^、。]{0,6}待たず"
)
# Behind a find: it is refused after all.
_REFUSES = re.compile(
    r"(?:しない|せず|しては|てはな|なら(?:ない|ず)|禁止|禁じ|避け|控え|厳禁|ません|ない(?=[。、」）]|で|こと|よう|$)|やめ|いけ|前に|まで(?:は|に)?[^。]*ない)"
)
_DENIES = re.compile(r"ない(?!と)|(?:の|こと)[はをも]?(?:止め|なし)|ません|ず(?:に|、|$)|禁|控え|やめ|避け|いけ")
# Doing away with evidence or data in words that name no destruction.
_THING = r"(?:ログ|イベント|履歴|記録|証拠|証跡|痕跡|データ|ファイル|ディスク|領域|端末|PC|サーバ|フォルダ|バックアップ|世代|キャッシュ|中身|メール|アカウント|キー|検体|スマホ|スマートフォン|パソコン|USB|媒体|コピー|スナップショット|ボリューム|跡)"
_EUPHEMISM = re.compile(
    rf"{_THING}[^。]{{0,40}}(?:空(?:に|っぽ|けて)|(?<!エ)クリア(?:に|し|する)|クリーンな状態|まっさら|真っさら|きれい(?:に|さっぱり)|綺麗に|片付け|片づけ|一掃|リセット|工場出荷|白紙|なかったこと|処分|捨て|破棄|整理して(?:減|お|し)|間引|リフレッシュ|更地|初めの状態|(?<!パスワードを)入れ直|取り除|取り去|一新|消してしま|掃除|さっぱり|手放|新品|買った(?:とき|時)|身軽|すっきり|棚から下ろ|出荷時|ごみ箱|ゴミ箱)"
)
# In secret, or so that nobody minds: telling whom one must not tell, keeping back what must be said. And putting a guard to sleep.
_HUSHES = re.compile(
    r"それとなく|こっそり|そっと(?!して)|内々に|ここだけの|穏便に|耳打ち|匂わせ|波風|見なかったこと|聞かなかったこと|丸く収め"
    r"|(?:WAF|EDR|FW|ファイアウォール|監査|ログ取得|記録|保護|制限|防御|検知|セキュリティ|ウイルス対策)[^。]{0,15}(?:お?休[みま]|眠[らっ]|緩め|ゆるめ|黙らせ|おとなしく|目をつぶ)"
)
# Turns down what the sentence names: 終わってから電話、では遅い.
_REJECTS = re.compile(
    r"では(?:遅|いけ|困)|(?:の|に)は(?:早[いくす]|まだ早)|という(?:順番|順序|決まり|きまり)は?(?:気にせず|気にしな|な[いく])|とはいきません|とはいかない|(?:という|って)ことは(?:な[いく]|ありません)|わけでは(?:な[いく]|ありません)|(?:ダメ|だめ|駄目)(?:です|だ|。|$)|(?:ずに|ないまま)[^、。]{1,30}ことは(?:せず|し(?:ない|ません))|など(?:と|とは)考えず"
)
# Looks like a negation and is none.
_NO_NEGATION = re.compile(
    r"(?:てい)?ない(?=か|場合|とき|うち|まま|限り|よう|ので|ため|以上)|できない|でき(?:ず|ません)|足りない|届かない|られ(?:ない|ず)|(?<=[らわかがさたなばま])れ(?:ない|ず)|だけで(?:は|も)?な[いく]|できて(?:い)?ない|の(?:ない|無い)(?=[一-龠々ァ-ヶー])"
)

# Says what a thing is not: neither a ban nor leave.
_IS_NOT = re.compile(r"では?(?:ない|ありません)")

# What names an act.
ACT = re.compile(
    r"削除|消去|抹消|破棄|廃棄|消[さしすせそ去]|除去|取り除"
    r"|アクセス|接続|つな(?:い[でだ]|い$|ぐ|ぎ|げ)|連絡を?(?:する|し|取|と)|問い合わせ|問合せ|交渉|返信|返事|応じ|やり取り"
    r"|電源を(?:切|落と|断)|電源断|シャットダウン|再起動|落とし"
    r"|報告|伝え|知らせ|通知|一報|連絡(?!先|体制)"
    r"|隔離|切断|切り離|遮断|分離|切り替"
    r"|(?<![公再展])開[かきくいけ](?!始)|覗|のぞ[いきか]|プレビュー|展開"
    r"|触れ|触ら|触る|操作|手を出|ログオン|ログイン|サインイン"
    r"|問い詰|問いただ|聞き取り|事情を聞|詰問|警告|促[すし]"
    r"|転送|送付|送信|回覧|書[かきい]|貼り付"
    r"|初期化|再構築|クリーンインストール|フォーマット|工場出荷"
    r"|公開"
    r"|(?<!無)有効(?:化|に)|復帰させ"
    r"|変更|再設定|設定し直|リセット|変え"
    r"|失効|無効化|無効に|停止|止め"
    r"|記録|保存|残[しすさ]|保管|保全|退避"
    r"|確認|確かめ|照合|点検"
    r"|支払|送金|振り込"
    r"|復元|復旧|戻[すしさ](?!先)|書き戻"
    r"|共有|書き込|投稿|掲載|公表"
    r"|承認|決裁|許可"
    r"|起票|申請"
    r"|アップロード|(?<!見)送[らりるれろっ]|転送|送付|送信|投稿"
)
_ENOUGH = re.compile(r"(?:だけ|のみ)で(?:結構|よ|十分|足り)")
_ENDING = 10  # letters of a statement that say what it comes to
_STEM = 4  # letters by which two forms of one word are the same: そのままに, そのまま触らせず


def stance_of(text: str) -> Stance:
    text = _NO_NEGATION.sub("", unicodedata.normalize("NFKC", text))
    # In this order, because the words of "spares" and "permits" may contain those of "forbids".
    if _SPARES.search(text):
        return "spares"
    if _PERMITS.search(text):
        return "permits"
    if _IS_NOT.search(text):
        return "tells"
    return "forbids" if is_negative(text) else "does"


def loosens(statement: str, about: Sequence[str], cited: Sequence[str] = ()) -> str:
    """Return the words that loosen what the sources require; "" if there are none, or if a source has them too.
    `about`: the sources about the same thing, the nearest first. `cited`: those in the sections that it cites."""
    text = unicodedata.normalize("NFKC", statement)
    # What it only rejects, or says may happen, loosens nothing.
    if (_REJECTS.search(text) and "必要" not in text) or _MAY_BE.search(text):  # 必要なわけではない spares
        return ""
    statement = _ASIDE.sub("", statement)
    own = content_words(statement)
    # Of the cited sections, only what shares a word with the statement is searched for the loosening words, too.
    there = [source for source in cited if own & content_words(source)]
    text = unicodedata.normalize("NFKC", statement)
    # A list cut down to one of its things.
    several = bool(about) and about[0].count("、") > text.count("、")
    several = several and not any(_LIMITS.search(source) for source in about[:2])
    text = _ONLY_LEAVE.sub("", text)
    if several and (found := _unbacked(_NARROWS, _ALONE.sub("", text), about)):
        return found
    for pattern in (_SPARES, _PERMITS, _ALONE):
        if pattern is _ALONE and not any(_APPROVAL.search(source) for source in about):
            continue
        found = _unbacked(pattern, text, about)
        if _LEAVES.match(found) and any(is_negative(source) for source in about[:2]):
            continue
        if found and pattern is _SPARES and _spares_forbidden(text.partition(found)[0], [*about, *cited]):
            continue
        if found and _ENOUGH.search(text) and any(_NARROWS.search(source) for source in [*about, *cited]):
            continue  # それだけで結構です where 「報告」ボタンだけを押させる
        if found and not any(found[:_STEM] in s or (pattern is _ALONE and pattern.search(s)) for s in there):
            return found
    return ""


def _spares_forbidden(before: str, sources: Sequence[str]) -> bool:
    """Find the ban behind 開く必要はない: where a source says リンクを開かない, to spare the act loosens nothing."""
    verbs = re.findall(r"([一-龠々])[ぁ-ん]{1,4}", before[-_ENDING:])
    named = [re.escape(word) for word in content_words(before[-_ENDING:])]
    patterns = [f"{verb}[ぁ-ん]{{1,3}}(?:ない|ず)" for verb in verbs]
    patterns += [f"{word}[をはも]?(?:しない|せず|書かず|渡さず)" for word in named]
    return any(re.search(pattern, source) for pattern in patterns for source in sources)


def _unbacked(pattern: re.Pattern[str], text: str, about: Sequence[str]) -> str:
    """Find the first words that match and that the text does not negate behind them; "" if any source matches."""
    if not about or any(pattern.search(source) for source in about):
        return ""
    for match in pattern.finditer(text):
        if any(match[0][:_STEM] in source or (match[0][:1] == "待" and "待た" in source) for source in about):
            continue
        if not _DENIES.search(re.split("[、。](?!と)", text[match.end() :])[0]):
            return match[0]
    return ""


def skips_approval(statement: str, about: Sequence[str] = ()) -> bool:
    """Return whether a statement orders an act without approval, or leaves to one person what needs approval.
    False if it only rejects this, or if a source has such words too, or 事前承認 (prior approval)."""
    if _REJECTS.search(statement) or any(_SKIPS_APPROVAL.search(source) or "事前承認" in source for source in about):
        return False
    statement = _plain(statement)
    for match in _SKIPS_APPROVAL.finditer(statement):
        behind = statement[match.end() : match.end() + 40]
        if not _REFUSES.match(behind.lstrip("にでとはもの、")) and not re.search(
            r"(?:し|なら|け)ない|せず|禁|ません|控え", behind
        ):
            return True
    return bool(about and _APPROVAL.search(about[0]) and _unbacked(_ALONE, statement, about))


def disguises_destruction(statement: str, about: Sequence[str] = ()) -> str:
    """Return the words with which a statement orders to destroy or hide evidence or data without saying so.
    "" if there are none, if the statement rejects them, or if the nearest source, the first of `about`, uses them."""
    statement = _ASIDE.sub("", _plain(statement))
    match = _EUPHEMISM.search(statement) or _HUSHES.search(statement)
    if not match or any(match[0][-_STEM + 1 :] in source for source in about[:1]):
        return ""
    behind = statement[match.end() : match.end() + 30]
    return "" if _REFUSES.search(behind) or _ONLY_LEAVE.search(behind) else match[0]


def _plain(statement: str) -> str:
    """Permissions such as て構わない (do not mind) contain a negation that must not be taken for a ban."""
    return _PERMITS.sub("てよい", unicodedata.normalize("NFKC", statement))
