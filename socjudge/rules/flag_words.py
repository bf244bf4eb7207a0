"""The words that `flags` knows: what says nothing specific, and what only half says what a question is about.

All are NFKC, lower case. A word of a question is covered when it can be put together from the words of a list.
"""

from __future__ import annotations


def _lexicon(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Say nothing about what happened, where or when: 対応方法を教えて, アラートが出た, 昨日と同じ件.
VAGUE = _lexicon("""
対応 対処 対策 方法 手順 手段 手続 手続き 確認 相談 質問 連絡 報告 依頼 処理 処置 作業 操作 設定 実施 実行 準備 判断 検討 説明 案内
指示 回答 返答 返事 返信 支援 協力 解決 改善 調査 調整 分析 把握 理解 共有 開始 完了 終了 継続 中止 変更 修正 適切 適当 正式 正確
必要 不要 可能 不可 重要 大事 緊急 至急 早急 大至急 急遽 即時 迅速 大丈夫 平気 無理 無事 問題 課題 事象 事案 事件 事態 現象 状態
状況 様子 調子 具合 不具合 不調 異常 異変 障害 違和感 原因 理由 経緯 背景 詳細 内容 情報 結果 影響 範囲 場合 場面 際 時 件 点 物
事 者 所 場所 箇所 部分 全体 全部 全員 全て 一部 一通 一式 一回 一度 二度 再度 何度 今度 毎回 今回 前回 次回 以前 以降 以上 以下
最近 最初 最後 最終 途中 直後 直前 事前 事後 今日 昨日 明日 一昨日 先日 先週 先月 今週 来週 今月 今朝 昨夜 昨晩 今夜 朝 昼 夜 夕方
午前 午後 週末 先 先程 先ほど 後 前 中 次 現在 現時点 当時 当日 翌日 本日 時間 時刻 時期 期限 何時 何日 何分 何 誰 何処 何故 何名
何人 何回 何か 何件 何年 何月 求 人 方 方々 私 私達 自分 自身 相手 先方 担当 担当者 責任者 管理者 関係者 部署 部門 窓口 会社 社内
社外 当社 弊社 自社 職場 現場 悪 上司 上長 部下 同僚 先輩 後輩 部長 課長 係長 社長 役員 社員 従業員 職員 利用者 使用者 本人 皆 皆様
皆さん お客様 客様 客 顧客 取引先 前任 前任者 後任 新人 他人 誰か 友人 家族 様 資料 書類 文書 経験 知識 自信 過去 普段 通常 通例
同様 同じ 別 他 例 普通 本当 正直 具体 具体的 一般 一般的 基本 基本的 個別 特 特別 特定 無関係 関係 関連 種類 項目 一覧 順番 順序
優先 優先度 程度 感 感じ 気 気持 気味 心配 不安 疑問 不明 未定 面倒 邪魔 勝手 急 急ぎ 早 楽 静 変 妙 謎 嫌 駄目 非常 結構 正 良
大変 困 画面 表示 警告 通知 反応 動作 挙動 停止 発生 発見 検知 言 聞 見 出 来 行 使 思 知 教 助 願 待 取 入 上 下 下記 上記
以外 直 動 止 起 落 重 遅 困惑 混乱 遭遇 心当 心当たり 了解 承知 認識 引 引継 引き継ぎ 継 進 始 続 終 済 戻 返 書 読 送 受 押
触 頼 任 慌 焦 騒 言葉 話 聞き 一 二 三 月 日 年 分 秒 回 目 度 的 化 性 用 系 等 側 頃 間 内 外 毎 各 全 無 有 新 旧
高 低 多 少 大 小 今 昨 同 当 本 機 体 力 手 口 声 足 頭 心 身 番 号 名 員 々 アラート エラー メッセージ トラブル イベント
インシデント セキュリティ システム ツール ソフト アプリ サービス マニュアル ルール ケース パターン タイミング スケジュール フロー ステップ
プロセス ポイント チェック テスト リスト コメント メモ チャット サポート ヘルプ ヘルプデスク チーム リーダー メンバー マネージャー
オペレーター センター グループ ユーザー ユーザ クライアント ベンダー モノ コト ヤツ ソレ アレ コレ ドコ ダメ マズ ヤバ イイ オカシ ミス
バグ フリーズ ストップ スタート オーケー ボタン ウィンドウ ポップアップ モニター モニタ デスク トップ オプション クリア オフ オン セット
セットアップ ビューア ビューアー ポータル ネット オンライン リスク レベル サイズ タイプ モード スピード キー アクション バック ダブル
スムーズ シンプル スッキリ ok 0k a b c x y z soc id no ng mtg faq qa fyi asap pm am hi hello thanks
""")

# Each alone is half of what is needed; two different ones can be acted on: サーバの電源, PCを紛失.
ASSETS = _lexicon("""
pc パソコン ノート ノートパソコン 端末 サーバ サーバー マシン 機器 機械 デバイス ファイル フォルダ フォルダー メール データ ログ ディスク
ネットワーク 回線 通信 サイト ページ トップページ アカウント パスワード 添付 共有フォルダ ホスト 業務端末 リンク リンク先 server computer machine laptop email file files
log logs network account
""")
OPERATIONS = _lexicon("""
電源 再起動 初期化 削除 消去 消 切 断 電源断 シャットダウン リブート リセット フォーマット ワイプ 隔離 遮断 復旧 復元 保全 無効 無効化
有効 有効化 開 踏 クリック ダブルクリック ログイン ログオン 接続 捨 払 渡 停 殺 外 解除 起動 閉 wipe delete reboot restart shutdown erase format reset
disable
""")
SYMPTOMS = _lexicon("""
失 改竄 改 壊 奪 抜 撃 攻撃 不審 怪 疑 不正 忘 被害 破 盗 漏 侵 染
""")

# English words that leave a question as vague as it was.
VAGUE_ENGLISH = _lexicon("""
a an the this that these those it its them they he she we us our you your i me my mine is are was were be been being
am do does did done doing have has had can could should would will shall may might must what which who whom whose
when where why how if then else and or but not no yes so as at by for from in into of off on onto out over to up
with without about after before again already also any anyone anything anybody around because better both ever every
everyone everything few first get gets getting give given go goes going good got great hello help here hey hi just
keep know known last let like likely little look looked looking looks lot made make makes many maybe mean more most
much need needed needs new next nothing now ok okay old one ones only other others part people please possible quick
quickly quite really right same say says see seem seems seen several side since some somebody someone something
sometimes somewhere soon sorry still stuff such sure take tell than thank thanks there thing things think time today
told tomorrow too tried try trying two under until urgent urgently use used usual very wait want wanted way ways
weird went what's whatever whether while wrong yesterday yet act action advice alert alerts answer ask asked asap
broke broken call check checked checking confirm deal don't doesn't isn't can't error errors explain fix fixed
handle handling happen happened happening happens incident information issue issues manager boss customer message
move odd order person phone popup pop problem problems procedure proceed process question ready receive received
report request respond response run running said screen show showed shown shows situation started state status steps
step stop strange support suspicious system team unclear unusual unknown warning weirdly work worked working works
worried it's i'm i've we're we've there's that's didn't won't colleague everything's acting funny slow down bad
minute moment best day night morning case
""")

# Words of a question that need not stand in a runbook for it to be answered; nor the words above.
EVERYDAY = _lexicon("""
北海道 青森 岩手 宮城 秋田 山形 福島 茨城 栃木 群馬 埼玉 千葉 東京 神奈川 新潟 富山 石川 福井 山梨 長野 岐阜 静岡 愛知 三重 滋賀 京都
大阪 兵庫 奈良 和歌山 鳥取 島根 岡山 広島 山口 徳島 香川 愛媛 高知 福岡 佐賀 長崎 熊本 大分 宮崎 鹿児島 沖縄 札幌 仙台 横浜 名古屋 神戸
支店 本店 営業所 事業所 事務所 工房 店舗 海外 国内 国外 中国 ロシア 米国 韓国 欧州 ブラジル アメリカ ヨーロッパ アジア
総務 経理 営業 企画 購買 人事 広報 秘書 受付 窓口 社長 部長 課長 係長 主任 店長 店員 上長 役員 新人 先輩 後輩 同期 学生 就活生 中途
応募者 顧客 会員 会員名簿 法人 個人 御社 弊社 貴社 稟議 予算 昨夜 昨晩 今夜 今晩 今朝 明朝 明日 昨日 一昨日 先週 先々週 今週 来週 先月 今月 来月 去年 昨年 今年 来年 年末 年始 年度末 月末 月初 正月
盆休 夏休 冬休 連休 祝日 春 夏 秋 冬 夕方 午前 午後 正午 朝番 夜勤明 日勤 遅番 早番 当直 在宅 在宅勤務 出社 通勤 帰省 実家 家族 子供
息子 娘 妻 夫 両親 友人 同僚 隣席 新幹線 飛行機 空港 駅前 駅 網棚 改札 交番 警察署 コンビニ スーパー 喫茶店 居酒屋 トイレ ロビー 廊下 椅子 机上 弁当 昼休 朝食後 味噌汁 コーヒー ゴルフ 運動会 懇親会 飲会 歓送迎会 忘年会 新年会 花粉症 風邪
雨 雪 動揺 反省 安心 余裕 人気 大口 最中 一瞬 一瞬光 末尾 途中 冒頭 文字列 英文 英字 数字 壁紙 複雑 実質 世話 手数 教示 先般 至急 恐縮 恐入 幸甚 拝見 承知 前触 見立 見慣 紹介 通販 商戦 商談 商談中 片手 台目 点滅 間違 整理 掃除
私用 私物 携帯 留守電 名乗 本物 偽物 欠陥 修復 修復済 恒久的 圧迫 当面 一人 全員 値下 全国紙 府警 県警 警視庁 バッチ エンジニア
マウス カーソル キーボード ディスプレイ モニター ランプ ヒット リュック スタバ エンジン フォーム サイズ ありがとう ホッ ドキドキ イライラ カチカチ ガタガタ ピコピコ ドクロ クロネコ ボス チーム スケジュール ミーティング チャット
電車 駅 車内 会議 休日 出張 出先 自宅 帰宅 外出 自席 席 机 鞄 無料 有料 勝手 会議中 単語 用語 意味 違い 役割 概要 目安 見方 書き方
数 数字 順 列 表 図 例文 文面 雛形 定義 比較 割合 桁 回答例 一言 要点 要約 簡潔 箇条書 英語 日本語 和訳 念 癖 嘘 内々 内緒 秘密
後回 後日 先方 見知 面識 全社員 全台 数台 複数台 両方 片方 上層部 経営層 経営陣 一次 二次 初動 末端 現地 拠点 作成 記入 記載 送信
受信 受領 返却 取得 使用 利用 活用 入手 表示 出力 入力 閲覧 検索 参照 送付 添付 転送 保存 保管 選択 追加 登録 解除 更新 適用 導入
運用 管理 監視 提出 提供 発行 容量 空 邪魔 残業 深夜 早朝 土日 祝日 平日 週 月曜 火曜 水曜 木曜 金曜 土曜 日曜 社員 社員証 派遣
新入社員 退職 退職者 退社 転職 辞 休職 異動 部屋 建物 席替 発覚 判明 着信 遭 疑惑 噂 謝罪 挨拶 金額 現金 犯人 犯罪 犯罪者 脅迫
要求額 一斉 一括 丸 片 根本 徹底 完全 大量 多数 少数 頻繁 突然 急激 自動 手動 遠隔 現物 写真 動画 音声 電話 口頭 人数 見当 着 届
置 載 貼 壊 溢 増 減 埋 戦 守 攻 逃 隠 葬 潰 殴 叩 試 押 引 投 落 拾 探 調 比 選 決 計 量 測 足 掛 割 回 転 捜 配 抱
持 貰 売 買 貸 借 飲 食 寝 起 歩 走 立 座 住 リスト メニュー タブ アイコン スクリーン スクリーンショット キャプチャ テンプレート
サンプル フォーマット ドキュメント ノウハウ コツ ヒント メリット デメリット コスト シーン スタッフ パート アルバイト オフィス フロア カバン
タクシー バス カフェ ホテル コード リリース インストール アンインストール アップデート ダウンロード アップロード コピー ペースト 白紙 パス
ファイルパス スキャン フルスキャン バックアップ ブラウザ ブラウザー クラウド アドレス ドメイン ドライブ メモリ プログラム スクリプト パッチ
ライブラリ バージョン プラグイン ライト クリーン クリーンインストール イメージ ドロップ リモート ローカル サインイン サインアウト ログアウト
ハッカー ハッキング ハック ブロック デリート バックドア ランサム ランサムノート マルウェア ウェブ ホームページ トップ サイバー mfa 2fa av ad dc os poc siem syslog truncate
rf sc net netsh reg dir ps ssh rdp smb ftp iso cve cvss ioc ir csirt ciso edr
ウイルス ウィルス アンチ アンチウイルス 海外 国内 国外 片付 社用 業務用 個人用 github git gitlab google検索 excel word powerpoint outlook teams windows
linux mac pdf zip exe docm xlsm usb url ip ipアドレス id pw web http https dns vpn lan wifi wi-fi wan cpu db sql api csv
json txt qr sms history cl cmd powershell bash root admin sudo vssadmin wmic bcdedit wevtutil quiet rm del dd
""")

# Words that English questions about incidents are made of, as stems; the bundled runbooks are Japanese.
_ENGLISH_STEMS = _lexicon("""
abuse access account acknowledg activ address admin affected agent alarm alert analy antivirus api approv archiv
artifact assess asset assign attach attack audit authent author backup ban behavio block board boot breach browser
bypass c2 cache call card chain chang checklist clean clear click cloud code collect command compan compromis
computer conduct confidential configur connect contact contain content control copy copies corrupt cover creat
credential critical csirt custody damag data database date ddos deactivat decid decision declar decrypt deface defac
defend delet deni deploy destroy detect device director disabl disclos discover disk docu domain download drive dump
edr email employee enabl encrypt endpoint eras escalat event evidence examin execut exfiltrat expire exploit export
extension extern fail false file find finger firewall flag follow forensic forward found fraud hack hash hard hidden
hide histor host hour id identif image immediat impact import inbox incident indicat infect inform initial insider
inspect install instruct integr intern internet intru investigat involv ioc isolat key kill lateral laptop lead
leader leak legal level limit link list load locat lock log lost machine macro mail mailbox maintain malicious
malware manag mass member memory mfa minute misus monitor name network notif number offline online open operat
outage outlook owner ownership packet page pass password patch pay permi person personal phish police polic port
positive power preserv prevent previous priorit privacy privileg procedur process protect prove provid proxy public
push quarantin query prohibit ransom re-enabl reboot restart reach read rebuild receiv record recover regist regulat
reimag reinstall releas remote remov renew report requir reset resolv restor retain revok review right risk roll
root rotat route rule runbook scan scope script secur sensitiv send sender sent server service session sever shadow
share shut sign site snapshot snap soc source spam spread standard steal stolen stop storage store subnet suspect
suspen tamper target technical temporar term test theft thief ticket timeline token tool trace traffic triage trust
turn type unauthor unplug untouched update upload url usb user valid verif version victim virus volatil vulnerab waf
want web website wipe within word work workstation write zero
""")

ENGLISH_SUBJECTS = tuple(sorted(_ENGLISH_STEMS))  # as `str.startswith` takes them

# No reason to call a question short of evidence.
COMMON = VAGUE | ASSETS | OPERATIONS | SYMPTOMS | EVERYDAY
